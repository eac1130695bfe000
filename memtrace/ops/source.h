/* source.h - operations from an ops file, or from a memtrace that is translated while it is read.
 *
 * The translation: New, Free and accesses become N, F, L, S, M with the handle of the block, and with addresses and
 * sizes as they are (size 0 for F). A Resize becomes an F of the old handle and an N with a new one, or, on request,
 * an R of the handle of the block. Handles are therefore counted anew, 0, 1, 2..., in the order of the N. Events
 * without a block are omitted and counted. On request, operations have the thread that did them, and the time. The
 * time of a heap event is its own. An access has the time of the heap event before it, or of an access before it that
 * is at most some thousand instructions older. Memory: O(live blocks).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MEMTRACE_OPS_SOURCE_H
#define MEMTRACE_OPS_SOURCE_H

#include "memtrace/memtrace.h"
#include "memtrace/ops.h"

struct op_source;

/* Optional properties of operations that are made from a trace. */
struct op_source_options {
    bool resizes; /* translate a Resize as R */
    bool threads, times;
};

/* At most one of trace and ops is given; the caller keeps ownership. Without either, op_source_give provides
 * events. NULL when out of memory. */
struct op_source *op_source_new(struct mt_reader *trace, struct ops_reader *ops,
                                struct op_source_options options);
void op_source_free(struct op_source *s);

/* Like ops_next. After MT_ERROR, either op_source_out_of_memory is true or the reader has the error. */
int op_source_next(struct op_source *s, const struct op **ops, size_t *n);
bool op_source_out_of_memory(const struct op_source *s);

/* Write the next operations of a trace, without threads and times. The result is that of op_source_next and
 * ops_write, but it is several times faster if the writer accepts shapes. The first q->skip operations are not
 * written, then up to q->left are; both are reduced by what was processed. Returns what op_source_next returns. */
struct op_quota {
    uint64_t skip, left;
};
int op_source_write(struct op_source *s, struct ops_writer *w, struct op_quota *q);

/* After all of a trace was written: write the list of blocks that are never freed (ops_writer_survivors). False
 * when out of memory. */
bool op_source_write_survivors(struct op_source *s, struct ops_writer *w);

/* Provide the next events when op_source_next has returned MT_END. The caller keeps them valid until it returns
 * MT_END again. */
void op_source_give(struct op_source *s, const struct mt_event *events, size_t n);

/* Begin in the middle of a trace. `handles` has the handles of the live blocks there + 1, by slot (0 = none), and
 * is copied. False when out of memory. */
bool op_source_begin(struct op_source *s, const uint64_t *handles, size_t n, uint64_t next_handle);

/* Skip accesses where that is faster, in traces and binary files. Called before the first operation. Operations
 * may then have no address. For callers that need only the handles of N and F. */
void op_source_skip_accesses(struct op_source *s);

/* Number of accesses to slots without live blocks. It is 0 for every trace that the reader accepts. */
uint64_t op_source_unmatched(const struct op_source *s);

#endif
