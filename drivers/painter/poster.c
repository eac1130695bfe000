/* poster.c - draws the poster: one picture of the whole replay.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/painter/poster.h"
#include "drivers/film/colours.h"
#include "drivers/painter/axis.h"
#include "drivers/painter/legend.h"

#include <stdio.h>

/* The longest of three texts that fits. */
static void write_words(struct poster *p, const struct scene_head *head)
{
    char line[256], bytes[NUMBER_TEXT], time[TIME_TEXT];
    int room = p->at.width - 2 * PICTURE_MARGIN;
    legend_bytes(bytes, head->film.extent);
    legend_time(time, head->film.time, head->film.total);
    snprintf(line, sizeof line, "%s    up: address, %s    right: time, %s", head->name, bytes, time);
    if (canvas_text_width(&p->canvas, line) > room)
        snprintf(line, sizeof line, "%s  %s  %s", head->name, bytes, time);
    if (canvas_text_width(&p->canvas, line) > room)
        snprintf(line, sizeof line, "%s", head->name);
    canvas_text_end(&p->canvas, PICTURE_MARGIN, PICTURE_MARGIN, room, TEXT_COLOUR, line);
}

bool poster_open(struct poster *p, const struct scene_head *head)
{
    *p = (struct poster){.at = geometry_of_poster(&head->film)};
    if (!canvas_open(&p->canvas, p->at.width, p->at.height, p->at.text))
        return false;
    canvas_fill(&p->canvas, 0, 0, p->at.width, p->at.height, BACKGROUND_COLOUR);
    write_words(p, head);
    axis_times(&p->canvas, &p->at, &head->film);
    axis_addresses(&p->canvas, &p->at, &head->film, true);
    legend_paint(&p->canvas, PICTURE_MARGIN, p->at.legend, p->at.text, p->at.legend_lines,
                 keys_of_poster(&head->film));
    return true;
}

void poster_add(struct poster *p, const struct scene *s, const uint32_t *looks)
{
    int to = (int)(s->done * p->at.columns);
    uint32_t *pixels = canvas_write(&p->canvas);
    for (int row = 0; row < p->at.rows && row < (int)s->cells; row++) {
        uint32_t *at = pixels + (p->at.top + p->at.rows - 1 - row) * p->at.width + p->at.left;
        for (int column = p->drawn; column < to; column++)
            at[column] = looks[row] & LOOK_COLOUR;
    }
    canvas_written(&p->canvas);
    p->drawn = to > p->drawn ? to : p->drawn;
}
