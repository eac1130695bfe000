/* colours.h - the colours of the pictures of the heap, 0xRRGGBB.
 *
 * People who cannot distinguish red from green, or blue from yellow, see all states of memory: used is orange, free
 * blue, overhead light grey, never used almost black. test_palette.py simulates their sight. Glows are drawn over used
 * or free memory for half a second.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_COLOURS_H
#define DRIVERS_FILM_COLOURS_H

/* How much of a cell's colour a glow is at first, in percent. */
enum { GLOW_OF_BLOCKS = 60, GLOW_OF_ACCESSES = 80 };

/* The mixture of two colours with so many percent of the second. */
#define MIXED_PART(from, to, percent, shift)                                                                 \
    ((((from) >> (shift)&0xff) * (100 - (percent)) + ((to) >> (shift)&0xff) * (percent) + 50) / 100          \
     << (shift))
#define MIXED(from, to, percent)                                                                             \
    (MIXED_PART(from, to, percent, 0) | MIXED_PART(from, to, percent, 8) | MIXED_PART(from, to, percent, 16))

enum colour {
    BACKGROUND_COLOUR = 0x0b0d12,
    TEXT_COLOUR = 0xd8dce6,
    KEY_EDGE_COLOUR = 0x5a6274,   /* in the legend, around a colour that is as dark as the background */
    STRIP_COLOUR = 0x1f232d,      /* background of the curves below the map */
    RESIDENT_COLOUR = 0x56b4e9,   /* resident bytes, of the curve */
    FRAGMENTED_COLOUR = 0xf2e394, /* resident bytes divided by live ones, of the curve */
    /* of bytes of the heap */
    UNTOUCHED_COLOUR = 0x1a1e28, /* never used since the start */
    UNUSED_COLOUR = 0x0072b2,    /* free now, but used before */
    USED_COLOUR = 0xe0650a,
    LOCKED_COLOUR = 0xf0e442,
    OVERHEAD_COLOUR = 0xa7abb3, /* of the allocator itself */
    FRESH_COLOUR = 0xffffff,    /* allocated a moment ago */
    GONE_COLOUR = 0x8fd3ff,     /* freed a moment ago */
    READ_COLOUR = 0x2fd6a8,
    WRITTEN_COLOUR = 0xd47fd8,
    /* in the legend: what has just begun to glow */
    NEW_COLOUR = MIXED(USED_COLOUR, FRESH_COLOUR, GLOW_OF_BLOCKS),
    FREED_COLOUR = MIXED(UNUSED_COLOUR, GONE_COLOUR, GLOW_OF_BLOCKS),
    /* of used bytes, by age or size: from the least class to the greatest, each darker than the one before */
    CLASS_0_COLOUR = 0xdbf8b8,
    CLASS_1_COLOUR = 0xe4aa66,
    CLASS_2_COLOUR = 0xe18103,
    CLASS_3_COLOUR = 0xc81600,
    CLASS_4_COLOUR = 0x860f16,
    CLASS_5_COLOUR = 0x51065e,
};

#endif
