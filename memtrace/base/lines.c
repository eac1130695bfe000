/* lines.c - finds the lines in the window of an input.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/lines.h"

/* The last line, which has no newline. */
static const uint8_t *with_newline(struct lines *l, struct input *in)
{
    memcpy(l->last, input_bytes(in), l->bytes); /* reading on has moved the window */
    l->last[l->bytes] = '\n';
    return l->last;
}

enum lines_found lines_read_on(struct lines *l, struct input *in, bool wait, const uint8_t **line)
{
    do {
        *line = input_bytes(in);
        l->bytes = input_available(in);
        const uint8_t *end = l->bytes ? memchr(*line, '\n', l->bytes) : NULL;
        if (end) {
            l->bytes = (size_t)(end + 1 - *line);
            return LINES_WHOLE;
        }
        if (!wait)
            return LINES_NONE;
        if (l->bytes >= LINES_MOST_BYTES) {
            l->is_long = true;
            return LINES_LONG;
        }
    } while (input_more(in));
    if (in->err.code != MT_E_NONE || l->bytes == 0)
        return LINES_NONE;
    *line = with_newline(l, in);
    return LINES_WHOLE;
}
