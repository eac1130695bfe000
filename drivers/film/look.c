/* look.c - mixes the colours of the cells of a heap from the uses of their bytes.
 *
 * New blocks glow white, and cells without used bytes blue after a free. Reads and writes have colours of their own. All of
 * these fade. By age or size, the colour of used bytes is that of the class of their mean; by site, that of the site that made
 * most of them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/look.h"
#include "drivers/film/colours.h"
#include "drivers/film/scene.h"

/* The side of a cell, in pixels, from which on a locked one has an outline; smaller ones are mixed with its colour. */
enum { LEAST_OUTLINED = 5 };
/* A cell of which hardly anything is used, or locked, still has so much of the colour that says so. */
static const float LEAST_USED = 0.25f, LEAST_LOCKED = 0.3f;

/* Mix two colours; t in 0..1. */
static uint32_t mix(uint32_t from, uint32_t to, float t)
{
    uint32_t out = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        float a = (float)(from >> shift & 0xff), b = (float)(to >> shift & 0xff);
        out |= (uint32_t)(a + (b - a) * t + 0.5f) << shift;
    }
    return out;
}

/* A share in 0..1 as one in least..1. */
static float at_least(float least, float share)
{
    return least + (1 - least) * share;
}

/* How much of the colour is glow now. percent: how much it is at first. */
static float glow(const struct cell *c, enum heap_layer layer, int percent)
{
    return (float)percent / 100 * ((float)c->glow[layer - LAYER_FRESH] / HEAT_FULL);
}

/* -- classes of values: the names are in keys.c. -- */

static const float s_ages[] = {0.01f, 0.05f, 0.2f, 0.5f};          /* in shares of the film's time */
static const uint64_t s_sizes[] = {64, 256, 1024, 4096, 64 << 10}; /* in bytes */

uint32_t value_of_time(double done)
{
    return 1 + (uint32_t)(done * (MOST_VALUE - 1));
}

/* The logarithm to base 2, with ten bits of fraction; between powers of two it is a line. */
uint32_t value_of_size(uint64_t bytes)
{
    if (bytes == 0)
        return 0;
    uint32_t whole = 63 - (uint32_t)__builtin_clzll(bytes);
    return whole << 10 | (uint32_t)((whole < 10 ? bytes << (10 - whole) : bytes >> (whole - 10)) & 1023);
}

static unsigned class_of_age(float age)
{
    unsigned i = 0;
    while (i < sizeof s_ages / sizeof s_ages[0] && age >= s_ages[i] * MOST_VALUE)
        i++;
    return i;
}

static unsigned class_of_size(float value)
{
    unsigned i = 0;
    while (i < sizeof s_sizes / sizeof s_sizes[0] && value >= (float)value_of_size(s_sizes[i]))
        i++;
    return i;
}

/* The site that made most of the bytes of a cell; FILM_SITES is all others together. */
static unsigned main_site(const struct cell *c)
{
    unsigned most = 0;
    for (unsigned i = 1; i <= FILM_SITES; i++)
        if (c->share[LAYER_SITE + i] > c->share[LAYER_SITE + most])
            most = i;
    return most;
}

static uint32_t used_colour(const struct cell *c, struct look_by by)
{
    static const uint32_t classes[] = {CLASS_0_COLOUR, CLASS_1_COLOUR, CLASS_2_COLOUR,
                                       CLASS_3_COLOUR, CLASS_4_COLOUR, CLASS_5_COLOUR};
    if (by.by == FILM_STATE)
        return USED_COLOUR;
    if (by.by == FILM_SITE)
        return classes[main_site(c)];
    return classes[by.by == FILM_AGE ? class_of_age(by.now - c->value) : class_of_size(c->value)];
}

/* The colour of a cell without glow and outline. */
static uint32_t plain_colour(const struct cell *c, struct look_by by)
{
    float used = c->share[LAYER_USED];
    uint32_t colour = c->seen ? UNUSED_COLOUR : UNTOUCHED_COLOUR;
    if (used > 0)
        colour = mix(colour, used_colour(c, by), at_least(LEAST_USED, used));
    return mix(colour, OVERHEAD_COLOUR, c->share[LAYER_OVERHEAD]);
}

/* The colour of a cell with its glow, from its current or its previous contents. */
static uint32_t glowing_colour(const struct cell *c, struct look_by by)
{
    uint32_t colour = plain_colour(c, by);
    if (by.by != FILM_STATE || !(c->glow[0] | c->glow[1] | c->glow[2] | c->glow[3]))
        return colour;
    if (c->share[LAYER_USED] <= 0)
        return mix(colour, GONE_COLOUR, glow(c, LAYER_GONE, GLOW_OF_BLOCKS));
    colour = mix(colour, FRESH_COLOUR, glow(c, LAYER_FRESH, GLOW_OF_BLOCKS));
    colour = mix(colour, READ_COLOUR, glow(c, LAYER_READ, GLOW_OF_ACCESSES));
    return mix(colour, WRITTEN_COLOUR, glow(c, LAYER_WRITTEN, GLOW_OF_ACCESSES));
}

uint32_t look_of_cell(const struct cell *c, struct look_by by, int side)
{
    uint32_t colour = glowing_colour(c, by);
    float locked = c->share[LAYER_LOCKED];
    if (locked <= 0)
        return colour | LOOK_SET;
    return side >= LEAST_OUTLINED ? colour | LOOK_SET | LOOK_OUTLINED
                                  : mix(colour, LOCKED_COLOUR, at_least(LEAST_LOCKED, locked)) | LOOK_SET;
}

uint32_t look_in_poster(const struct cell *c, struct look_by by)
{
    return (c->share[LAYER_LOCKED] > 0.5f ? LOCKED_COLOUR : plain_colour(c, by)) | LOOK_SET;
}
