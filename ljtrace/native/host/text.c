/* text.c - Valgrind's functions for memory, texts and messages, for the code that is shared with the tool.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * libc's printf may allocate and take locks, so the few conversions that are needed are here: %s, and %u, %d and %x with
 * l, ll and #.
 */
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/native.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include <string.h>
#include <sys/syscall.h>

enum { MESSAGE_LIMIT = 600 };

void *VG_(memcpy)(void *to, const void *from, SizeT n)
{
    return memcpy(to, from, n);
}

void *VG_(memset)(void *to, Int c, SizeT n)
{
    return memset(to, c, n);
}

void *VG_(memmove)(void *to, const void *from, SizeT n)
{
    return memmove(to, from, n);
}

Int VG_(memcmp)(const void *a, const void *b, SizeT n)
{
    return memcmp(a, b, n);
}

HChar *VG_(strchr)(const HChar *s, HChar c)
{
    return strchr(s, c);
}

HChar *VG_(strncpy)(HChar *to, const HChar *from, SizeT n)
{
    return strncpy(to, from, n);
}

SizeT VG_(strlen)(const HChar *s)
{
    return strlen(s);
}

Int VG_(strcmp)(const HChar *a, const HChar *b)
{
    return strcmp(a, b);
}

HChar *VG_(strcpy)(HChar *to, const HChar *from)
{
    return strcpy(to, from);
}

/* A text that is being written. */
struct text {
    HChar *at, *end; /* end: the place of the last zero */
};

static void put_char(struct text *to, HChar c)
{
    if (to->at < to->end)
        *to->at++ = c;
}

static void put_string(struct text *to, const HChar *s)
{
    while (*s)
        put_char(to, *s++);
}

static void put_number(struct text *to, ULong n, UInt base)
{
    HChar digits[24];
    UInt count = 0;
    do
        digits[count++] = "0123456789abcdef"[n % base];
    while (n /= base);
    while (count)
        put_char(to, digits[--count]);
}

static void put_signed(struct text *to, Long n)
{
    if (n < 0)
        put_char(to, '-');
    put_number(to, n < 0 ? -(ULong)n : (ULong)n, 10);
}

/* Write an argument. `format` is after its '%'. Returns the rest of the format. */
static const HChar *put_argument(struct text *to, const HChar *format, va_list *args)
{
    Bool wide = False, alternate = *format == '#';
    for (format += alternate; *format == 'l'; format++)
        wide = True;
    switch (*format) {
    case 's':
        put_string(to, va_arg(*args, const HChar *));
        break;
    case 'd':
        put_signed(to, wide ? va_arg(*args, Long) : va_arg(*args, Int));
        break;
    case 'x':
        put_string(to, alternate ? "0x" : "");
        put_number(to, wide ? va_arg(*args, ULong) : va_arg(*args, UInt), 16);
        break;
    case 'u':
        put_number(to, wide ? va_arg(*args, ULong) : va_arg(*args, UInt), 10);
        break;
    default:
        put_char(to, *format);
    }
    return format + 1;
}

static UInt print(HChar *buffer, Int size, const HChar *format, va_list *args)
{
    struct text to = {buffer, buffer + size - 1};
    while (*format)
        if (*format == '%')
            format = put_argument(&to, format + 1, args);
        else
            put_char(&to, *format++);
    *to.at = 0;
    return (UInt)(to.at - buffer);
}

UInt VG_(snprintf)(HChar *buffer, Int size, const HChar *format, ...)
{
    va_list args;
    va_start(args, format);
    UInt n = print(buffer, size, format, &args);
    va_end(args);
    return n;
}

static void say(const HChar *text, UInt bytes)
{
    kernel_call(SYS_write, 2, (long)text, bytes, 0, 0, 0);
}

UInt VG_(umsg)(const HChar *format, ...)
{
    HChar text[MESSAGE_LIMIT];
    va_list args;
    va_start(args, format);
    UInt n = print(text, sizeof text, format, &args);
    va_end(args);
    if (!native_options.attached) /* standard error is the program's; it did not start the recorder */
        say(text, n);
    return n;
}

void VG_(tool_panic)(const HChar *why)
{
    say("ljtrace: ", 9);
    say(why, (UInt)strlen(why));
    say("\n", 1);
    __builtin_trap();
}

void VG_(assert_fail)(Bool is_core, const HChar *expression, const HChar *file, Int line,
                      const HChar *function, const HChar *format, ...)
{
    (void)is_core, (void)line, (void)function, (void)format;
    say(file, (UInt)strlen(file));
    say(": ", 2);
    VG_(tool_panic)(expression);
}
