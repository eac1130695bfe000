/* text.c - texts without a C library.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * libc's printf may allocate and take locks, and the Valgrind tool has none.
 */
#include "ljtrace/luajit/base/text.h"
#include "ljtrace/luajit/host.h"
#include <stdarg.h>
#include <string.h>

enum { MESSAGE_PIECE = 600 };

/* A text that is being written. */
struct text {
    char *begin, *at, *end; /* end: the place of the last zero */
    bool is_message;        /* shown in pieces, so that nothing is cut */
};

static void show(struct text *to)
{
    *to->at = 0;
    host_say(to->begin);
    to->at = to->begin;
}

static void put_char(struct text *to, char c)
{
    if (to->at == to->end && to->is_message)
        show(to);
    if (to->at < to->end)
        *to->at++ = c;
}

static void put_string(struct text *to, const char *s)
{
    while (*s)
        put_char(to, *s++);
}

static void put_number(struct text *to, uint64_t n, uint32_t base)
{
    char digits[24];
    uint32_t count = 0;
    do
        digits[count++] = "0123456789abcdef"[n % base];
    while (n /= base);
    while (count)
        put_char(to, digits[--count]);
}

static void put_signed(struct text *to, int64_t n)
{
    if (n < 0)
        put_char(to, '-');
    put_number(to, n < 0 ? -(uint64_t)n : (uint64_t)n, 10);
}

/* Write an argument. `format` is after its '%'. Returns the rest of the format. */
static const char *put_argument(struct text *to, const char *format, va_list *args)
{
    bool wide = false, alternate = *format == '#';
    for (format += alternate; *format == 'l'; format++)
        wide = true;
    switch (*format) {
    case 's':
        put_string(to, va_arg(*args, const char *));
        break;
    case 'd':
        put_signed(to, wide ? va_arg(*args, int64_t) : va_arg(*args, int32_t));
        break;
    case 'x':
        put_string(to, alternate ? "0x" : "");
        put_number(to, wide ? va_arg(*args, uint64_t) : va_arg(*args, uint32_t), 16);
        break;
    case 'u':
        put_number(to, wide ? va_arg(*args, uint64_t) : va_arg(*args, uint32_t), 10);
        break;
    default:
        put_char(to, *format);
    }
    return format + 1;
}

static void print(struct text *to, const char *format, va_list *args)
{
    while (*format)
        if (*format == '%')
            format = put_argument(to, format + 1, args);
        else
            put_char(to, *format++);
    *to->at = 0;
}

uint32_t text_print(char *to, size_t room, const char *format, ...)
{
    struct text text = {.begin = to, .at = to, .end = to + room - 1};
    va_list args;
    va_start(args, format);
    print(&text, format, &args);
    va_end(args);
    return (uint32_t)(text.at - to);
}

void text_say(const char *format, ...)
{
    char piece[MESSAGE_PIECE];
    struct text text = {.begin = piece, .at = piece, .end = piece + sizeof piece - 1, .is_message = true};
    va_list args;
    va_start(args, format);
    print(&text, format, &args);
    va_end(args);
    show(&text);
}

uint32_t text_length(const char *text)
{
    uint32_t n = 0;
    while (text[n])
        n++;
    return n;
}

bool text_equals(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

bool bytes_equal(const void *a, const void *b, size_t n)
{
    const uint8_t *first = a, *second = b;
    for (size_t i = 0; i < n; i++)
        if (first[i] != second[i])
            return false;
    return true;
}

void text_copy(char *to, const char *from)
{
    memcpy(to, from, text_length(from) + 1);
}

char *text_duplicate(const char *text)
{
    const size_t bytes = text_length(text) + 1;
    return memcpy(host_new(bytes), text, bytes);
}
