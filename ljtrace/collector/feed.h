/* feed.h - convert the records of the ring to calls of the memtrace writer.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * It processes one slab after another (ljtrace/protocol/ring.h describes their content) and keeps what
 * records refer to: segments, frames, heaps, and which threads are inside allocators. The writer knows the
 * blocks, and so which accesses are to the heap. The feed does no input or output of its own, so slabs may
 * also come from a file or a test.
 */
#ifndef COLLECTOR_FEED_H
#define COLLECTOR_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "memtrace/memtrace.h"

struct feed;
struct regions;

struct feed *feed_new(struct mt_writer *w);
/* The process that the records come from; 0 = none that can be looked at. */
void feed_process(struct feed *f, int process);
/* Process the first `size` bytes at `slab`. Returns NULL, or what is wrong with them; the rest of the slab is
 * lost then. */
const char *feed_slab(struct feed *f, const uint8_t *slab, size_t size);
/* The same of a slab that the program has not handed over. Instrumented code extends a segment as it runs on: it writes
 * the number of the longer segment over that of the shorter one, then words after it (valgrind/instrument/segment.h).
 * FEED_GROWING: the program runs, so a segment at the end is left for the next call, which begins there. FEED_CUT: the
 * program has ended, and a segment at the end whose words are not all there is left out. *fed: how many bytes were
 * processed. */
enum feed_end { FEED_WHOLE, FEED_GROWING, FEED_CUT };
const char *feed_records(struct feed *f, const uint8_t *slab, size_t size, enum feed_end how, size_t *fed);
/* The request of the tool in the records processed, if there was one. It is returned only once. */
enum feed_request { FEED_NONE, FEED_STATUS, FEED_SNAPSHOT, FEED_FORK, FEED_COPY };
enum feed_request feed_take_request(struct feed *f);
/* The socket to which the child of the last FEED_FORK, or the process of the last FEED_COPY, connects; valid until the next
 * slab. */
const char *feed_fork_socket(const struct feed *f);
/* Give up the snapshot that is not complete; nothing of it will be read. */
void feed_drop_snapshot(struct feed *f);
/* The bytes that Lua states had at the attach, by the snapshots that were taken then; 0 = none were. */
uint64_t feed_lua_before(const struct feed *f);
/* Has the program asked to look at its pages, in the records processed? It waits until their slab is released. end: it is
 * about to end; else name is that of a mark. */
struct feed_pages {
    bool asked, end;
    char name[1024];
};
/* The latest such request, which is returned only once. */
struct feed_pages feed_take_pages(struct feed *f);
/* From now on, what the program maps is added to these regions as well, where they have nothing yet. NULL = no more. */
void feed_fill_regions(struct feed *f, struct regions *r);
/* The ranges that the program has mapped itself. Valid until the next slab. */
const struct regions *feed_regions(const struct feed *f);
/* The recording asks for the blocks that the program had before it began; and: were they not all reported yet? */
void feed_await_existing(struct feed *f);
bool feed_awaits_existing(const struct feed *f);
/* The process that reports them has ended too early. And: why they are not known, or not all; NULL = they are. */
void feed_existing_failed(struct feed *f);
const char *feed_existing_problem(const struct feed *f);
/* Set the time. uncounted: the header's counter, which counts the instructions of code whose accesses are not
 * recorded. */
void feed_time(struct feed *f, uint64_t uncounted);
/* The ending of the trace, if it ended after the records processed so far. */
enum mt_ending feed_ending(const struct feed *f);
/* Continue with another writer, which has all definitions under the same ids (mt_writer_fork). */
void feed_rebind(struct feed *f, struct mt_writer *w);
/* Write which events are missing that the native library has dropped up to now; counts: the ring's, by enum ring_loss. */
void feed_lost(struct feed *f, const uint64_t *counts);
/* What follows comes from the ring of a forked child. */
void feed_other_ring(struct feed *f);
/* Was the record RAW_END among the records processed? */
bool feed_ended(const struct feed *f);
/* Write a line about the objects whose debug information could not be read. Returns its length; 0 = there are
 * none. */
size_t feed_missing_lines(const struct feed *f, char *to, size_t room);
void feed_free(struct feed *f);

#endif
