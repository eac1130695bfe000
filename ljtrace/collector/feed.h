/* feed.h - from the raw words of the ring to the memtrace.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Takes one slab after the other (ljtrace/protocol/ring.h has their grammar), keeps what the raw records refer to (segments,
 * frames, heaps, threads inside allocators) and calls the memtrace writer, which knows what is heap. It does
 * no input or output of its own and can be fed from a file or a test as well.
 */
#ifndef COLLECTOR_FEED_H
#define COLLECTOR_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "memtrace/memtrace.h"

struct feed;

struct feed *feed_new(struct mt_writer *w);
/* Consume so many bytes of a slab, ahead of which is what may be read. NULL, or what is wrong with them: the
 * rest of the slab is then lost. */
const char *feed_slab(struct feed *f, const uint8_t *slab, size_t size);
/* What the tool asked for in what was fed; it is then forgotten. */
enum feed_wish { FEED_NONE, FEED_STATUS, FEED_SNAPSHOT };
enum feed_wish feed_take_wish(struct feed *f);
/* The header's counter of instructions without accesses, for the time of the tail. */
void feed_time(struct feed *f, uint64_t uncounted);
/* Why the trace ends, if it ended after what was fed. */
enum mt_ending feed_ending(const struct feed *f);
/* Go on into another writer, which knows all definitions by the same ids (mt_writer_fork). */
void feed_rebind(struct feed *f, struct mt_writer *w);
/* Was the tool's last word among what was fed? */
bool feed_ended(const struct feed *f);
/* One line on objects whose debug information could not be read; its length, 0 = there are none. */
size_t feed_missing_lines(const struct feed *f, char *to, size_t room);
void feed_free(struct feed *f);

#endif
