/* source.h - operations from whatever holds them: an ops file, or a memtrace translated on the way.
 *
 * The translation: New, Free and accesses become N, F, L, S, M of the block's handle, with addresses and
 * sizes as they are (size 0 for F); a Resize becomes F of the old and N of a new handle, so that handles are
 * counted anew, 0, 1, 2... in the order of the N, or, if resizes are wanted, an R of the block's handle.
 * Events without a block are left out and counted. If wanted, operations
 * have the thread that did them, and the time: that of each heap event, and of an access that of the heap
 * event before it or of one after so many instructions. Memory: O(live blocks).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MEMTRACE_OPS_SOURCE_H
#define MEMTRACE_OPS_SOURCE_H

#include "memtrace/ops.h"

struct op_source;

/* What to give of a trace besides. */
struct op_wishes {
    bool resizes; /* a Resize as R */
    bool threads, times;
};

/* One of trace and ops is given at most, and stays the caller's; without either, op_source_give brings
 * events. NULL: out of memory. */
struct op_source *op_source_new(struct mt_reader *trace, struct ops_reader *ops, struct op_wishes wishes);
void op_source_free(struct op_source *s);

/* As ops_next. After MT_ERROR: op_source_out_of_memory, else the reader's own error holds. */
int op_source_next(struct op_source *s, const struct op **ops, size_t *n);
bool op_source_out_of_memory(const struct op_source *s);

/* Write the next operations of a trace at once, without threads and times: as those of op_source_next,
 * several times faster where the writer takes shapes. Of all that come, `skip` are passed over and up to
 * `left` written; both are counted down. Returns as op_source_next. */
struct op_quota {
    uint64_t skip, left;
};
int op_source_write(struct op_source *s, struct ops_writer *w, struct op_quota *q);

/* When all of a trace has been written, once: tell a writer which blocks it does not free
 * (ops_writer_survivors). False when out of memory. */
bool op_source_write_survivors(struct op_source *s, struct ops_writer *w);

/* The next events, when op_source_next said MT_END; they stay the caller's and good until it says so again.
 */
void op_source_give(struct op_source *s, const struct mt_event *events, size_t n);

/* Begin in the middle of a trace: handles of the blocks that live there, plus 1, by slot (0 = none), and the
 * next one. They are copied. False when out of memory. */
bool op_source_begin(struct op_source *s, const uint64_t *handles, size_t n, uint64_t next_handle);

/* Before the first operations: leave out accesses where that is cheap, of a trace or a binary file; of which
 * the others have no address then. For those who look at handles of N and F alone. */
void op_source_skip_accesses(struct op_source *s);

/* Accesses to slots where nothing lives: 0 for any trace of a sound reader. */
uint64_t op_source_stray(const struct op_source *s);

#endif
