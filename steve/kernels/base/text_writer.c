/* text_writer.c - numbers and letters to a descriptor; see text_writer.h.
 *
 * Numbers are made two digits at a time from a table, from the right.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/base/text_writer.h"

#include <errno.h>
#include <unistd.h>

/* The ten numbers with a first digit. */
#define PAIRS(ten) ten "0" ten "1" ten "2" ten "3" ten "4" ten "5" ten "6" ten "7" ten "8" ten "9"
static const char s_pairs[] = PAIRS("0") PAIRS("1") PAIRS("2") PAIRS("3") PAIRS("4") PAIRS("5") PAIRS("6")
    PAIRS("7") PAIRS("8") PAIRS("9");

void textout_init(struct textout *t, int fd)
{
    t->fd = fd;
    t->error = 0;
    t->next = t->buffer;
}

static void write_all(struct textout *t, const char *s, size_t n)
{
    while (n > 0 && !t->error) {
        ssize_t done = write(t->fd, s, n);

        if (done < 0 && errno != EINTR)
            t->error = errno;
        if (done > 0) {
            s += done;
            n -= (size_t)done;
        }
    }
}

void textout_flush(struct textout *t)
{
    write_all(t, t->buffer, (size_t)(t->next - t->buffer));
    t->next = t->buffer;
}

void textout_bytes(struct textout *t, const char *s, size_t n)
{
    if (n > (size_t)(t->buffer + TEXTOUT_ROOM - t->next))
        textout_flush(t);
    if (n > TEXTOUT_ROOM)
        write_all(t, s, n);
    else
        textout_put_string(t, s, n);
}

int textout_finish(struct textout *t)
{
    textout_flush(t);
    return t->error;
}

void textout_put_number(struct textout *t, uint64_t value)
{
    char digits[24];
    char *p = digits + sizeof digits;

    while (value >= 100) {
        p -= 2;
        memcpy(p, s_pairs + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10) {
        p -= 2;
        memcpy(p, s_pairs + value * 2, 2);
    } else {
        *--p = (char)('0' + value);
    }
    textout_put_string(t, p, (size_t)(digits + sizeof digits - p));
}
