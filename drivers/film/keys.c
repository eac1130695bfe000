/* keys.c - the legends of the pictures, and the room they need.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/keys.h"
#include "drivers/film/colours.h"

#include <string.h>

#define KEYS(list) ((struct keys){list, sizeof list / sizeof list[0]})

struct keys keys_of_frame(void)
{
    static const struct key keys[] = {{"used", USED_COLOUR, 0},
                                      {"locked", USED_COLOUR, LOCKED_COLOUR},
                                      {"overhead", OVERHEAD_COLOUR, 0},
                                      {"free", UNUSED_COLOUR, 0},
                                      {"never used", UNTOUCHED_COLOUR, KEY_EDGE_COLOUR},
                                      {"new", 0xf3c19d, 0},
                                      {"freed", 0x56ace0, 0},
                                      {"read", READ_COLOUR, 0},
                                      {"written", WRITTEN_COLOUR, 0}};
    return KEYS(keys);
}

struct keys keys_of_poster(void)
{
    static const struct key keys[] = {{"used", USED_COLOUR, 0},
                                      {"locked", LOCKED_COLOUR, 0},
                                      {"overhead", OVERHEAD_COLOUR, 0},
                                      {"free", UNUSED_COLOUR, 0},
                                      {"never used", UNTOUCHED_COLOUR, KEY_EDGE_COLOUR}};
    return KEYS(keys);
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
