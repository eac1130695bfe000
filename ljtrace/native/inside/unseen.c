/* unseen.c - report how much memory the program has used, and whether hardly any block of it was recorded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the program uses is the anonymous memory of the process without the recorder's tables, which is compared with what it
 * was at the beginning: its heaps, but also its stacks and its data. So a few MiB say nothing.
 *
 * The most that it has used is a fact, for programs whose runtime has pools of its own: a reader compares it with the blocks.
 * After an attach, what it had before is one: no heap was larger, but for what was swapped out.
 */
#include "ljtrace/native/inside/unseen.h"
#include "ljtrace/native/inside/calls.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/protocol/table.h"

#include <string.h>

/* LEAST_WITH_OWN: if functions of an allocator are patched, which may keep so much for itself. */
enum { LEAST_GROWTH = 4 << 20, LEAST_WITH_OWN = 64 << 20, MANY_TIMES = 16, STATUS_BYTES = 4096 };

static uint64_t s_at_begin;
uint64_t unseen_counted;

/* The number at *text, which is moved after it and the blank that follows. */
static uint64_t next_number(const char **text)
{
    uint64_t number = 0;
    for (; **text >= '0' && **text <= '9'; ++*text)
        number = 10 * number + (uint64_t)(**text - '0');
    *text += **text == ' ';
    return number;
}

/* Bytes of memory in use that are not a file's and not the recorder's; 0 = unknown. /proc/self/statm has pages: size,
 * resident, shared. */
static uint64_t anonymous_bytes(void)
{
    char text[128];
    const char *at = text;
    if (!native_process.patches)
        return 0; /* a filter may end the program for the next calls */
    kernel_read_text("/proc/self/statm", text, sizeof text);
    next_number(&at);
    const uint64_t resident = next_number(&at), shared = next_number(&at);
    const uint64_t tables = tables_touched();
    return (resident - shared) * KERNEL_PAGE > tables && resident > shared
               ? (resident - shared) * KERNEL_PAGE - tables
               : 0;
}

/* The number of a line of /proc/self/status, in bytes; 0 = there is none. */
static uint64_t status_bytes(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    if (!at)
        return 0;
    at += strlen(name);
    while (*at == ' ' || *at == '\t')
        at++;
    return next_number(&at) << 10;
}

/* The most such bytes since the process began, 0 = unknown. What is a file's at the end was so at the peak, too: that is
 * nearly always so. */
static uint64_t peak_bytes(void)
{
    TABLE(char, text, STATUS_BYTES);
    if (!native_process.patches)
        return 0;
    kernel_read_text("/proc/self/status", text, STATUS_BYTES);
    const uint64_t peak = status_bytes(text, "\nVmHWM:"), of_files = status_bytes(text, "\nRssFile:"),
                   shared = status_bytes(text, "\nRssShmem:"), others = of_files + shared + tables_touched();
    return peak > others ? peak - others : 0;
}

/* A process that was attached to had used memory before, and none of these blocks are recorded. */
static void put_peak(void)
{
    const uint64_t peak = native_options.attached ? 0 : peak_bytes();
    if (!peak || !native_ring_try_lock())
        return;
    native_put_number("anonymous_peak", peak);
    native_ring_unlock();
}

void unseen_begin(void)
{
    s_at_begin = anonymous_bytes();
    unseen_counted = 0;
}

void unseen_put_facts(void)
{
    if (native_options.attached && s_at_begin)
        native_put_number("anonymous_before", s_at_begin);
}

void unseen_end(void)
{
    const uint64_t now = anonymous_bytes(), grown = now > s_at_begin ? now - s_at_begin : 0;
    const uint64_t least = native_calls_nest ? LEAST_WITH_OWN : LEAST_GROWTH;
    put_peak();
    if (!s_at_begin || grown < least || unseen_counted >= grown / MANY_TIMES || !native_ring_try_lock())
        return;
    native_put_number("unseen_mapped_bytes", grown);
    native_put_number("unseen_block_bytes", unseen_counted);
    native_put_fact("unseen_reason", "native");
    native_problem(
        "the program has used memory, but hardly any block was recorded: its allocator may have functions of "
        "other names, or none that has a symbol. --alloc-prefix=PREFIX names them; valgrind --tool=ljtrace "
        "--heap=mmap records mappings");
    native_ring_unlock();
}
