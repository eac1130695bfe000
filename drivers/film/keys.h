/* keys.h - the legend of a picture: what its colours mean, and how much room that needs.
 *
 * The process of a replay must know how many cells a picture has, and so how high the legend below them is. It has no
 * letters to measure. So the room is an upper bound by the number of letters.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_KEYS_H
#define DRIVERS_FILM_KEYS_H

#include "drivers/base/shared.h"

#include <stddef.h>
#include <stdint.h>

struct key {
    const char *name;
    uint32_t colour;
    uint32_t outline; /* colour of the outline, 0 = none */
};

enum { MOST_KEYS = 12 };

struct keys {
    struct key of[MOST_KEYS];
    size_t count;
};

/* The keys of a film; those by site have the names in it. */
struct keys keys_of_frame(const struct film_size *film);
struct keys keys_of_poster(const struct film_size *film);
/* Of the strip below a frame. */
struct keys keys_of_strip(void);

/* Side of a key's square, and the space after it; twice this is between two keys. In pixels, for letters of this size. */
int key_side(int text);
int key_space(int text);
/* An upper bound of the width of a text of so many letters, in pixels. */
int text_room(int text, size_t letters);
/* An upper bound of the number of lines of this width that the keys need. */
int keys_lines(struct keys k, int text, int width);

#endif
