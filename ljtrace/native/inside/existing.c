/* existing.c - reports the blocks of malloc from before ljtrace attach.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A copy of the process reads them (copy.h), so the program waits only for the copy. The ring is locked when the copy is made.
 * So every other thread soon waits for the ring, before the free or after the allocation that it records, and none is inside
 * malloc. What a thread has then recorded and not yet freed, or allocated and not yet recorded, the collector finds out
 * (ljtrace/collector/feed_existing.c).
 */
#include "ljtrace/native/inside/existing.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/glibc_heap.h"
#include "ljtrace/native/inside/host/host.h"
#include "ljtrace/protocol/table.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/single_threaded.h>

/* COPIES: the most that are made, if a thread is inside malloc in each. */
enum { COPIES = 3, ATTEMPTS = 20, YIELDS = 200, BLOCKS = 2000, ANSWERS = 1000 /* milliseconds */ };
enum { GOOD = 1, BUSY };

static const char s_busy[] = "a thread was inside malloc at each attempt";

/* -- in the copy -- */

TABLE(struct raw_block, s_blocks, BLOCKS);
static uint32_t s_count;
static uint64_t s_all, s_bytes;

static void send_blocks(void)
{
    NATIVE_PUT(existing, .blocks = s_blocks, .blocks_count = s_count);
    s_count = 0;
}

static void add_block(uint64_t addr, uint64_t size)
{
    s_blocks[s_count++] = (struct raw_block){addr, size};
    s_all++;
    s_bytes += size;
    if (s_count == BLOCKS)
        send_blocks();
}

static void send_end(const char *problem)
{
    NATIVE_PUT(existing_end, .all = s_all, .bytes = s_bytes, .problem = native_text(problem));
}

static _Noreturn void report_from_copy(bool is_last)
{
    char missing[120] = "";
    if (!glibc_heap_is_quiet() && !is_last)
        host_copy_end(HOST_COPY_OTHER, BUSY);
    host_copy_leave(HOST_COPY_OTHER, GOOD);
    const char *wrong = glibc_heap_check();
    if (wrong) {
        send_end(wrong);
        host_copy_end(HOST_COPY_OTHER, GOOD);
    }
    glibc_heap_walk(add_block);
    send_blocks();
    if (glibc_heap_missing())
        snprintf(missing, sizeof missing, "%llu large blocks, each a mapping of its own, were not all found",
                 (unsigned long long)glibc_heap_missing());
    send_end(missing);
    host_copy_end(HOST_COPY_OTHER, GOOD);
}

/* -- in the program -- */

/* The ring is locked. Wait until no thread is inside malloc, but not for long. */
static bool becomes_quiet(void)
{
    for (int i = 0; i < YIELDS; i++) {
        if (glibc_heap_is_quiet())
            return true;
        sched_yield();
    }
    return false;
}

/* Does the copy have to be made again? */
static bool was_busy(void)
{
    uint64_t answer = GOOD;
    if (__libc_single_threaded)
        return false;
    for (int i = 0; i < ANSWERS && !host_copy_result(HOST_COPY_OTHER, &answer); i++)
        native_pause(1);
    return answer == BUSY;
}

/* One attempt. Returns true if there is nothing more to do. */
static bool attempt(uint32_t *copies)
{
    bool done = false, waits = false;
    if (!native_enter((uint64_t)__builtin_frame_address(0)))
        return true;
    host_set_time();
    if (becomes_quiet()) {
        const enum host_copy copy = host_copy_begin();
        if (copy == HOST_COPY_IS)
            report_from_copy(++*copies == COPIES);
        ++*copies;
        waits = copy == HOST_COPY_TAKES;
        done = !waits;
        if (done)
            send_end("no copy of the process can be made");
    }
    native_leave();
    return done || (waits && !was_busy());
}

static void give_up(const char *why)
{
    if (!native_enter((uint64_t)__builtin_frame_address(0)))
        return;
    send_end(why);
    native_leave();
}

void existing_report(void)
{
    uint32_t copies = 0;
    const char *wrong = glibc_heap_find();
    for (int i = 0; !wrong && i < ATTEMPTS; i++) {
        if (attempt(&copies))
            return;
        native_pause(1);
    }
    give_up(wrong ? wrong : s_busy);
}
