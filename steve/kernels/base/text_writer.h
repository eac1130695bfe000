/* text_writer.h - numbers and letters to a descriptor, fast.
 *
 * A buffer of 256 KB before write(2), through which the kernels write all text. After the first error of the system,
 * everything is dropped, and textout_finish returns that error. The locale has no effect.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_TEXT_WRITER_H
#define STEVE_KERNELS_BASE_TEXT_WRITER_H

#include <stdint.h>
#include <string.h>

#define TEXTOUT_ROOM (256 * 1024)
#define TEXTOUT_LINE 256 /* most bytes between two calls of textout_reserve */

struct textout {
    int fd;
    int error; /* errno of the first failed write, else 0 */
    char *next;
    char buffer[TEXTOUT_ROOM];
};

void textout_init(struct textout *t, int fd);
void textout_flush(struct textout *t);
/* Bytes of any length. */
void textout_bytes(struct textout *t, const char *s, size_t n);
/* Flush; the errno of the first error, or 0. */
int textout_finish(struct textout *t);

/* Make room for TEXTOUT_LINE bytes; the textout_put_ functions below need that and do not look. */
static inline void textout_reserve(struct textout *t)
{
    if (t->next > t->buffer + TEXTOUT_ROOM - TEXTOUT_LINE)
        textout_flush(t);
}

static inline void textout_put_char(struct textout *t, char c)
{
    *t->next++ = c;
}

static inline void textout_put_string(struct textout *t, const char *s, size_t n)
{
    memcpy(t->next, s, n);
    t->next += n;
}

void textout_put_number(struct textout *t, uint64_t value);

#endif
