/* lines.h - the lines of a text input, one after another.
 *
 * Each line is given with a newline at its end, also the last one, which may have none. A line that is too long is given when
 * its beginning fills the window; what remains of it, up to its newline, is then a line with `in_long`.
 *
 * A line that was not passed is given again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BASE_LINES_H
#define MEMTRACE_BASE_LINES_H

#include "memtrace/base/input.h"

#include <string.h>

/* The most bytes of a line that is not too long. */
enum { LINES_MOST_BYTES = 4096 };

/* Begin with {.number = 1}. */
struct lines {
    uint64_t number;                    /* of the line that is given, or will be */
    bool in_long;                       /* its beginning, which was too long, was passed */
    bool is_long;                       /* the line that is given is the beginning of one that is too long */
    size_t bytes;                       /* of the line that is given, in the window */
    uint8_t last[LINES_MOST_BYTES + 1]; /* the last line with a newline, if it has none */
};

enum lines_found { LINES_WHOLE, LINES_LONG, LINES_NONE };

/* lines_next, where no whole line is in the window. */
enum lines_found lines_read_on(struct lines *l, struct input *in, bool wait, const uint8_t **line);

/* The line that follows those that were passed: *line is where it begins, until it is passed or the input is read on.
 * wait: read on if no whole line is in the window. LINES_NONE: there is none, or with an error of the input. */
static inline enum lines_found lines_next(struct lines *l, struct input *in, bool wait, const uint8_t **line)
{
    const size_t n = input_available(in);
    const uint8_t *end = n ? memchr(input_bytes(in), '\n', n) : NULL;
    if (!end)
        return lines_read_on(l, in, wait, line);
    *line = input_bytes(in);
    l->bytes = (size_t)(end + 1 - *line);
    return LINES_WHOLE;
}

/* Pass the line that was given. */
static inline void lines_pass(struct lines *l, struct input *in)
{
    input_skip(in, l->bytes);
    l->number += !l->is_long;
    l->in_long = l->is_long;
    l->is_long = false;
}

#endif
