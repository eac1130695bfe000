/* colours.h - the colours of the pictures of the heap, 0xRRGGBB.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_COLOURS_H
#define DRIVERS_FILM_COLOURS_H

enum colours {
    BACKGROUND_COLOUR = 0x0b0d12,
    WORDS_COLOUR = 0xd8dce6,
    STRIP_COLOUR = 0x1f232d,
    RESIDENT_COLOUR = 0x6f8fd0,
    FRAGMENTED_COLOUR = 0xf2e394,
    UNTOUCHED_COLOUR = 0x1a1e28,
    UNUSED_COLOUR = 0x2c7a45,
    USED_COLOUR = 0xd0463b,
    LOCKED_COLOUR = 0xf0c02e,
    OVERHEAD_COLOUR = 0x8a8f99,
    FRESH_COLOUR = 0xffffff,
    GONE_COLOUR = 0x4fb4ff,
    READ_COLOUR = 0x3fe0d0,
    WRITTEN_COLOUR = 0xc65cff
};

#endif
