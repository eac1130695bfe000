# ckernels.pxd - Cython's view of the headers in the folders here; the headers say what everything means.
#
# SPDX-License-Identifier: GPL-2.0-or-later
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from steve.trace.cmemtrace cimport mt_event, mt_live_block_t, mt_batch, mt_reader
from steve.trace.cops cimport op, ops_reader, ops_writer


cdef extern from "steve/kernels/base/text_writer.h" nogil:
    struct textout:
        int error
    void textout_init(textout *t, int fd)
    void textout_bytes(textout *t, const char *s, size_t n)
    void textout_reserve(textout *t)
    void textout_put_char(textout *t, char c)
    void textout_put_string(textout *t, const char *s, size_t n)
    void textout_put_number(textout *t, uint64_t value)
    int textout_finish(textout *t)

cdef extern from "steve/kernels/totals/classic_text.h" nogil:
    struct classic_counts:
        uint64_t lines, bad_frees, others
    void classic_write(textout *out, const mt_event *events, size_t n, classic_counts *counts)

cdef extern from "steve/kernels/base/life.h" nogil:
    struct life:
        uint64_t handle, size, bytes, resizes, first_size, most, moves, copied, born_allocated, died_allocated
        uint64_t born, died, born_time, died_time, first_use, last_use, loads, stores, modifies
        uint64_t bytes_read, bytes_written, used, extent, news, peak, peak_bytes
        double weight
        uint32_t stack, heap, last_stack
        uint16_t thread, free_thread
        uint8_t how, freed, shared, type, inherited, reach, container, kept
    uint64_t life_scaled(const life *l, uint64_t x)
    double life_variance(const life *l, uint64_t x)

cdef extern from "memtrace/ops/source.h" nogil:
    struct op_source:
        pass
    struct op_source_options:
        bint resizes, threads, times
    op_source *op_source_new(mt_reader *trace, ops_reader *ops, op_source_options options)
    void op_source_free(op_source *s)
    int op_source_next(op_source *s, const op **ops, size_t *n)
    struct op_quota:
        uint64_t skip, left
    int op_source_write(op_source *s, ops_writer *w, op_quota *q)
    bint op_source_write_survivors(op_source *s, ops_writer *w)
    void op_source_give(op_source *s, const mt_event *events, size_t n)
    bint op_source_begin(op_source *s, const uint64_t *handles, size_t n, uint64_t next_handle)
    bint op_source_out_of_memory(const op_source *s)
    void op_source_skip_accesses(op_source *s)
    uint64_t op_source_unmatched(const op_source *s)

cdef extern from "steve/kernels/locks/survivors.h" nogil:
    struct unfreed:
        uint64_t *list
        size_t n
        uint64_t news
    bint unfreed_init(unfreed *u)
    bint unfreed_feed(unfreed *u, const op *ops, size_t n)
    bint unfreed_feed_events(unfreed *u, const mt_event *events, size_t n)
    bint unfreed_finish(unfreed *u)
    void unfreed_free(unfreed *u)

cdef extern from "steve/kernels/locks/survivors.h" nogil:
    struct mortals:
        pass
    bint mortals_right(const mortals *m)

cdef extern from "steve/kernels/locks/full.h" nogil:
    struct lockfull_rules:
        int64_t gain, decay, threshold
        bint compat, unlock_before_free
    struct lockfull:
        op *out
        uint64_t *at
        size_t n_out
        uint64_t locks, unlocks, unmatched, news
        int64_t index
        mortals mortals
    bint lockfull_init(lockfull *l, const uint64_t *unfreed, size_t n_unfreed, lockfull_rules rules)
    bint lockfull_feed(lockfull *l, const op *ops, size_t n)
    bint lockfull_feed_batch(lockfull *l, const mt_batch *batch)
    void lockfull_free(lockfull *l)

cdef extern from "steve/kernels/locks/simple.h" nogil:
    struct locksimple:
        size_t n_long
        uint64_t news, accesses, unmatched
    bint locksimple_init(locksimple *s, uint64_t threshold, bint compat)
    bint locksimple_feed(locksimple *s, const op *ops, size_t n)
    bint locksimple_finish(locksimple *s)
    void locksimple_free(locksimple *s)
    struct locksimple_writer:
        uint64_t news, locks, index
        bint out_of_memory
    bint locksimple_writer_init(locksimple_writer *w, const locksimple *plan, bint unlock_before_free)
    void locksimple_writer_free(locksimple_writer *w)
    size_t locksimple_write(locksimple_writer *w, const op *ops, size_t n, op *out, uint64_t *at)

cdef extern from "steve/kernels/locks/stack.h" nogil:
    struct lockstack:
        op *out
        uint64_t *at
        size_t n_out
        uint64_t locks, unlocks, now, next_handle
    bint lockstack_init(lockstack *l, const mt_reader *reader, bint unlock_before_free)
    void lockstack_free(lockstack *l)
    bint lockstack_feed(lockstack *l, const mt_event *events, const mt_event *shown, size_t n)

cdef extern from "steve/kernels/locks/stats.h" nogil:
    struct lockstats_sample:
        uint64_t operation, live_blocks, live_bytes, locked_blocks, locked_bytes
    struct lockstats:
        lockstats_sample samples[256]
        size_t n_samples
        double sums[4]
        uint64_t fed, blocks_made, blocks_locked, locks, unlocks, died_locked
        uint64_t holds[65]
        uint64_t held, longest
    bint lockstats_init(lockstats *s)
    void lockstats_free(lockstats *s)
    bint lockstats_feed(lockstats *s, const op *ops, const uint64_t *at, size_t n)
    void lockstats_finish(lockstats *s, uint64_t end)

cdef extern from "steve/kernels/totals/lifetimes.h" nogil:
    struct lifetime:
        uint64_t handle, own, other
    struct lifetimes:
        lifetime *blocks
        size_t n
        uint64_t accesses, unmatched
    bint lifetimes_init(lifetimes *l)
    bint lifetimes_feed(lifetimes *l, const op *ops, size_t n)
    void lifetimes_finish(lifetimes *l)
    void lifetimes_free(lifetimes *l)
    enum lifetext_kind:
        LIFETEXT_MICRO, LIFETEXT_MACRO
    struct lifetext:
        textout *out
        const lifetime *blocks
        lifetext_kind kind
        bint compat
        uint64_t accesses
    void lifetext_pairs(textout *out, const lifetime *blocks, size_t n, bint ahead)
    void lifetext_lines(const lifetext *t, const int64_t *order, size_t n)

cdef extern from "steve/kernels/base/survey.h" nogil:
    enum:
        SURVEY_HANDLES, SURVEY_OWNERS, SURVEY_SPLIT
    struct survey:
        uint64_t operations, handles
        uint64_t *handle_of
        uint32_t *owner_of
        size_t n_handle_of, n_owner_of
    void survey_init(survey *s, unsigned wanted)
    void survey_free(survey *s)
    bint survey_feed(survey *s, const mt_event *events, size_t n)

cdef extern from "steve/kernels/base/live_blocks.h" nogil:
    struct live_at:
        pass
    struct live_blocks:
        const uint32_t *ended
        size_t n_ended
        const live_at *list
        size_t n_list
    bint live_blocks_list(live_blocks *b)

cdef extern from "steve/kernels/base/keyed_rows.h" nogil:
    struct keyed_rows:
        uint32_t *keys
        size_t n

cdef extern from "steve/kernels/totals/summary.h" nogil:
    struct summary_stack:
        pass
    struct summary_totals:
        uint64_t events[12]
        uint64_t accessed[9]
        uint64_t allocated, freed, lost, last_event
        int64_t live_bytes, live_blocks, peak_bytes, peak_blocks
        uint64_t threads[1024]
    struct summary_variances:
        double allocated, freed, news, frees, live_bytes, live_blocks, peak_bytes, peak_blocks
        double resizes, loads, stores, modifies, read, written
    struct summary:
        summary_totals totals
        summary_variances variances
        live_blocks blocks
        keyed_rows of_stacks
        summary_stack *stacks
    struct summary_partial:
        const summary_totals *totals
        const summary_stack *stacks
        const uint32_t *of_rows
        size_t n_stacks
        const uint32_t *ended
        size_t n_ended
        const live_at *list
        size_t n_list
    void summary_init(summary *s)
    bint summary_enter(summary *s, const mt_live_block_t *live)
    bint summary_feed(summary *s, const mt_batch *batch, uint32_t stacks)
    void summary_finish(summary *s)
    bint summary_merge(summary *whole, const summary_partial *shard)
    unsigned summary_threads(const summary *s)
    void summary_free(summary *s)
