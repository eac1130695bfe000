/* look.c - mixes the colours of the cells of a heap from the uses of their bytes.
 *
 * New blocks glow white and freed ones blue; reads and writes have colours of their own; all of these fade.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/look.h"
#include "drivers/film/colours.h"
#include "drivers/film/scene.h"

enum { LEAST_OUTLINED = 5 };

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

static float heat(const struct cell *c, enum heap_layer layer)
{
    return (float)c->glow[layer - LAYER_FRESH] / HEAT_FULL;
}

/* The colour of a cell without glow and outline. */
static uint32_t plain_colour(const struct cell *c)
{
    float used = c->share[LAYER_USED];
    uint32_t colour = c->seen ? UNUSED_COLOUR : UNTOUCHED_COLOUR;
    if (used > 0)
        colour = mix(colour, USED_COLOUR, 0.25f + 0.75f * used);
    return mix(colour, OVERHEAD_COLOUR, c->share[LAYER_OVERHEAD]);
}

/* The colour of a cell with its glow, from its current or its previous contents. */
static uint32_t glowing_colour(const struct cell *c)
{
    uint32_t colour = plain_colour(c);
    if (!(c->glow[0] | c->glow[1] | c->glow[2] | c->glow[3]))
        return colour;
    if (c->share[LAYER_USED] <= 0)
        return mix(colour, GONE_COLOUR, 0.6f * heat(c, LAYER_GONE));
    colour = mix(colour, FRESH_COLOUR, 0.6f * heat(c, LAYER_FRESH));
    colour = mix(colour, READ_COLOUR, 0.8f * heat(c, LAYER_READ));
    return mix(colour, WRITTEN_COLOUR, 0.8f * heat(c, LAYER_WRITTEN));
}

uint32_t look_of_cell(const struct cell *c, int side)
{
    uint32_t colour = glowing_colour(c);
    float locked = c->share[LAYER_LOCKED];
    if (locked <= 0)
        return colour | LOOK_SET;
    return side >= LEAST_OUTLINED ? colour | LOOK_SET | LOOK_OUTLINED
                                  : mix(colour, LOCKED_COLOUR, 0.3f + 0.7f * locked) | LOOK_SET;
}

uint32_t look_in_poster(const struct cell *c)
{
    return (c->share[LAYER_LOCKED] > 0.5f ? LOCKED_COLOUR : plain_colour(c)) | LOOK_SET;
}
