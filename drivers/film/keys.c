/* keys.c - the legends of the pictures, and the room they need.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/keys.h"
#include "drivers/film/colours.h"

#include <string.h>

#define KEYS(list) keys_of(list, sizeof list / sizeof list[0])

static struct keys keys_of(const struct key *list, size_t count)
{
    struct keys keys = {.count = count};
    memcpy(keys.of, list, count * sizeof *list);
    return keys;
}

/* The classes of look.c, then the states that are no use. */
#define OTHER_STATES(locked, outline)                                                                        \
    {"locked", locked, outline}, {"overhead", OVERHEAD_COLOUR, 0}, {"free", UNUSED_COLOUR, 0},               \
    {                                                                                                        \
        "never used", UNTOUCHED_COLOUR, KEY_EDGE_COLOUR                                                      \
    }
#define AGES                                                                                                 \
    {"age < 1 % of the run", CLASS_0_COLOUR, 0}, {"< 5 %", CLASS_1_COLOUR, 0},                               \
        {"< 20 %", CLASS_2_COLOUR, 0}, {"< 50 %", CLASS_3_COLOUR, 0},                                        \
    {                                                                                                        \
        "50 % or more", CLASS_4_COLOUR, KEY_EDGE_COLOUR                                                      \
    }
#define SIZES                                                                                                \
    {"size < 64 B", CLASS_0_COLOUR, 0}, {"< 256 B", CLASS_1_COLOUR, 0}, {"< 1 KiB", CLASS_2_COLOUR, 0},      \
        {"< 4 KiB", CLASS_3_COLOUR, 0}, {"< 64 KiB", CLASS_4_COLOUR, KEY_EDGE_COLOUR},                       \
    {                                                                                                        \
        "64 KiB or more", CLASS_5_COLOUR, KEY_EDGE_COLOUR                                                    \
    }

/* The colours of look.c in its order, then the states that are no use. */
static struct keys keys_by_site(const struct film_size *film, struct keys states)
{
    static const uint32_t colours[] = {CLASS_0_COLOUR, CLASS_1_COLOUR, CLASS_2_COLOUR, CLASS_3_COLOUR,
                                       CLASS_4_COLOUR};
    struct keys keys = {.count = film->sites};
    for (size_t i = 0; i < film->sites; i++)
        keys.of[i] =
            (struct key){film->site_names[i], colours[i], colours[i] == CLASS_4_COLOUR ? KEY_EDGE_COLOUR : 0};
    keys.of[keys.count++] = (struct key){"others", CLASS_5_COLOUR, KEY_EDGE_COLOUR};
    memcpy(&keys.of[keys.count], states.of, states.count * sizeof *states.of);
    keys.count += states.count;
    return keys;
}

struct keys keys_of_frame(const struct film_size *film)
{
    static const struct key states[] = {{"used", USED_COLOUR, 0},
                                        {"locked", USED_COLOUR, LOCKED_COLOUR},
                                        {"overhead", OVERHEAD_COLOUR, 0},
                                        {"free", UNUSED_COLOUR, 0},
                                        {"never used", UNTOUCHED_COLOUR, KEY_EDGE_COLOUR},
                                        {"new", NEW_COLOUR, 0},
                                        {"freed", FREED_COLOUR, 0},
                                        {"read", READ_COLOUR, 0},
                                        {"written", WRITTEN_COLOUR, 0}};
    static const struct key ages[] = {AGES, OTHER_STATES(CLASS_2_COLOUR, LOCKED_COLOUR)};
    static const struct key sizes[] = {SIZES, OTHER_STATES(CLASS_2_COLOUR, LOCKED_COLOUR)};
    static const struct key others[] = {OTHER_STATES(CLASS_2_COLOUR, LOCKED_COLOUR)};
    enum film_colour by = film->colour;
    if (by == FILM_SITE)
        return keys_by_site(film, KEYS(others));
    return by == FILM_AGE ? KEYS(ages) : by == FILM_SIZE ? KEYS(sizes) : KEYS(states);
}

struct keys keys_of_poster(const struct film_size *film)
{
    static const struct key states[] = {{"used", USED_COLOUR, 0}, OTHER_STATES(LOCKED_COLOUR, 0)};
    static const struct key ages[] = {AGES, OTHER_STATES(LOCKED_COLOUR, 0)};
    static const struct key sizes[] = {SIZES, OTHER_STATES(LOCKED_COLOUR, 0)};
    static const struct key others[] = {OTHER_STATES(LOCKED_COLOUR, 0)};
    enum film_colour by = film->colour;
    if (by == FILM_SITE)
        return keys_by_site(film, KEYS(others));
    return by == FILM_AGE ? KEYS(ages) : by == FILM_SIZE ? KEYS(sizes) : KEYS(states);
}

struct keys keys_of_strip(void)
{
    static const struct key keys[] = {{"live", USED_COLOUR, 0},
                                      {"resident", RESIDENT_COLOUR, 0},
                                      {"resident over live, 0 to 100 %", FRAGMENTED_COLOUR, 0}};
    return KEYS(keys);
}

int key_side(int text)
{
    return text * 3 / 4;
}

int key_space(int text)
{
    return text / 2;
}

int text_room(int text, size_t letters)
{
    return (int)((size_t)text * letters * 5 / 8) + 1;
}

int keys_lines(struct keys k, int text, int width)
{
    int lines = 1, x = 0;
    for (size_t i = 0; i < k.count; i++) {
        int key = key_side(text) + key_space(text) + text_room(text, strlen(k.of[i].name));
        if (x && x + key > width) {
            lines++;
            x = 0;
        }
        x += key + 2 * key_space(text);
    }
    return lines;
}
