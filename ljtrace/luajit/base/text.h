/* text.h - texts without a C library: write them, compare them, show them to the user.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUAJIT_BASE_TEXT_H
#define LJTRACE_LUAJIT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Write a text, cut to fit into `room` bytes with its terminating zero. Returns its length. The conversions are %s, and
 * %u, %d and %x with l, ll and #. */
uint32_t text_print(char *to, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Show a text to the user. */
void text_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint32_t text_length(const char *text);
bool text_equals(const char *a, const char *b);
bool bytes_equal(const void *a, const void *b, size_t n);
/* Copy a text to where it has room. */
void text_copy(char *to, const char *from);
/* A copy in memory of its own, to be freed by host_free. */
char *text_duplicate(const char *text);

#endif
