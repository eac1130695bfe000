# cython: language_level=3, boundscheck=False
"""The kernel of `steve report` for Python.

steve/kernels/lives/profile.h and sums.def in steve/kernels/base/ say what each number means.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from steve.kernels._walk cimport Analysis, Walk
from steve.kernels.ckernels cimport live_at, live_blocks
from steve.kernels.records cimport array_of, data_of, enough, view_of
from steve.trace.cmemtrace cimport *


cdef extern from "steve/kernels/base/timeline.h" nogil:
    struct timeline_bin:
        pass


cdef extern from "steve/kernels/base/life.h" nogil:
    struct life:
        pass


cdef extern from "steve/kernels/lives/profile.h" nogil:
    enum: PROFILE_SIZES
    enum: PROFILE_LIFETIMES
    struct profile:
        pass
    struct profile_tally:
        pass
    struct profile_tally_variances:
        pass
    struct profile_mark:
        pass
    struct profile_totals:
        pass
    struct profile_shard:
        profile_totals totals
        uint64_t width, risen, ended_at_peak
    struct profile_rows:
        const uint32_t *ids
        const profile_tally *rows
        size_t n
        uint32_t known
        const profile_tally_variances *variances
        size_t n_variances
    struct profile_partial:
        const profile_shard *shard
        profile_rows stacks, heaps
        const timeline_bin *bins
        size_t n_bins
        const profile_mark *marks
        const uint64_t *map_blocks
        const uint64_t *map_bytes
        const uint32_t *ended
        size_t n_ended
        const live_at *list
        size_t n_list
    profile *profile_new(uint32_t bins)
    void profile_free(profile *p)
    void profile_begin_shard(profile *p, uint64_t operations, uint64_t total)
    bint profile_enter(profile *p, const mt_live_block_t *live)
    bint profile_finish_shard(profile *p, profile_shard *shard)
    bint profile_merge(profile *whole, const profile_partial *shard)
    bint profile_fits(const profile *p)
    const live_blocks *profile_blocks(const profile *p)
    bint profile_feed(profile *p, const mt_batch *batch, uint32_t stacks, uint32_t heaps)
    bint profile_add_lives(profile *p, const life *lives, size_t n)
    void profile_finish(profile *p)
    const profile_totals *profile_get_totals "profile_totals"(const profile *p)
    profile_rows profile_stacks(const profile *p)
    profile_rows profile_heaps(const profile *p)
    const timeline_bin *profile_timeline(const profile *p, size_t *n)
    const profile_mark *profile_marks(const profile *p, size_t *n)
    const uint64_t *profile_map_blocks(const profile *p)
    const uint64_t *profile_map_bytes(const profile *p)

import numpy as np

from steve.kernels._sums import chosen, dtype_of, variances_of
from steve.system.errors import SteveError
from steve.trace._memtrace import KIND_NAMES

TALLY, VARIANCES, BIN = dtype_of("profile_tally"), variances_of("profile_tally"), dtype_of("timeline_bin")
MARK = np.dtype([(name, "u8") for name in ("operation", "time", "string")])
EVENTS = tuple("lost_records" if name == "lost" else name for name in KIND_NAMES)
TOTALS = dtype_of("profile_totals")
LIVE_AT = np.dtype((np.void, sizeof(live_at)))

if MARK.itemsize != sizeof(profile_mark):
    raise ImportError("steve.kernels._profile: column names and profile.h disagree")


cdef class HeapProfile(Analysis):
    """Sums by stack and heap, and the heap over time. The result is the object itself.

    add_lives() gets the lives of all blocks. The partial() of a shard includes those that were added there."""

    cdef profile *p
    cdef object name
    needs = ("operations",)

    def __cinit__(self, int bins=600):
        if bins < 2 or bins % 2:
            raise ValueError("bins: an even number from 2 on")
        self.p = profile_new(bins)
        if self.p is NULL:
            raise MemoryError()

    def __dealloc__(self):
        profile_free(self.p)

    cdef int begin_shard(self, checkpoint) except -1:
        profile_begin_shard(self.p, checkpoint.operations, checkpoint.total)
        return 0

    cdef int enter(self, Walk walk, const mt_live_block_t *block) except -1:
        return enough(profile_enter(self.p, block))

    def take_batch(self, Walk walk):
        cdef uint32_t stacks = mt_count_stacks(walk.trace.r), heaps = mt_count_heaps(walk.trace.r)
        cdef bint ok
        with nogil:
            ok = profile_feed(self.p, &walk.batch, stacks, heaps)
        enough(ok)

    def add_lives(self, batch, keep):
        """Add lives. keep: None, because no selection is made here."""
        cdef const uint8_t[::1] raw
        cdef size_t n = len(batch)
        cdef bint ok
        if n == 0:
            return
        raw = batch.view(np.uint8)
        with nogil:
            ok = profile_add_lives(self.p, <const life *>&raw[0], n)
        enough(ok)

    def partial(self):
        """The fields of struct profile_partial: `shard` as its totals and its other numbers, the others as arrays."""
        cdef profile_shard shard
        cdef const live_blocks *blocks = profile_blocks(self.p)
        enough(profile_finish_shard(self.p, &shard))
        return (array_of(&shard.totals, 1, TOTALS), (shard.width, shard.risen, shard.ended_at_peak), known_rows(profile_stacks(self.p)),
                known_rows(profile_heaps(self.p)), self.timeline(), self.marks(), *self.lifetime_map(),
                array_of(blocks.ended, blocks.n_ended, np.dtype("u4")), array_of(blocks.list, blocks.n_list, LIVE_AT))

    def merge(self, shard):
        cdef profile_partial to
        cdef profile_shard numbers
        totals, others, stacks, heaps, bins, marks, map_blocks, map_bytes, ended, blocks = shard
        numbers.totals = (<const profile_totals *>data_of(totals))[0]
        numbers.width, numbers.risen, numbers.ended_at_peak = others
        to.shard = &numbers
        to.stacks, to.heaps = rows_of(stacks), rows_of(heaps)
        to.bins, to.n_bins = <const timeline_bin *>data_of(bins), len(bins)
        to.marks = <const profile_mark *>data_of(marks)
        to.map_blocks, to.map_bytes = <const uint64_t *>data_of(map_blocks), <const uint64_t *>data_of(map_bytes)
        to.ended, to.n_ended = <const uint32_t *>data_of(ended), len(ended)
        to.list, to.n_list = <const live_at *>data_of(blocks), len(blocks)
        enough(profile_merge(self.p, &to))

    def know(self, whole):
        self.name = whole.name

    def end(self, uint64_t time, bint between):
        if self.name is not None and not profile_fits(self.p):
            raise SteveError(f"{self.name}: is damaged, but its checksums are right; read it without -j")
        profile_finish(self.p)

    def result(self):
        return self

    def totals(self):
        """The fields of struct profile_totals, but in place of events their numbers by the names in EVENTS."""
        row = array_of(profile_get_totals(self.p), 1, TOTALS)[0]
        events = dict(zip(EVENTS, row["events"].tolist()))
        return {**events, **{name: int(row[name]) for name in TOTALS.names if name != "events"}}

    def stacks(self, columns=TALLY.names):
        """(ids of the stacks with blocks, in order, and these columns of their TALLY and VARIANCES)."""
        return chosen_rows(profile_stacks(self.p), columns)

    def heaps(self, columns=TALLY.names):
        """The same of heaps."""
        return chosen_rows(profile_heaps(self.p), columns)

    def timeline(self):
        """Array of BIN in order."""
        cdef size_t n
        cdef const timeline_bin *data = profile_timeline(self.p, &n)
        return array_of(data, n, BIN)

    def marks(self):
        """Array of MARK: the first ones of the trace."""
        cdef size_t n
        cdef const profile_mark *data = profile_marks(self.p, &n)
        return array_of(data, n, MARK)

    def lifetime_map(self):
        """(blocks, bytes): uint64 arrays [size bin, lifetime bin]; the last lifetime bin is `never freed`."""
        shape = (PROFILE_SIZES, PROFILE_LIFETIMES)
        cells = PROFILE_SIZES * PROFILE_LIFETIMES
        u8 = np.dtype("u8")
        return (array_of(profile_map_blocks(self.p), cells, u8).reshape(shape),
                array_of(profile_map_bytes(self.p), cells, u8).reshape(shape))


cdef tuple known_rows(profile_rows of):
    """(ids, in order, their rows, number of all ids)."""
    ids = array_of(of.ids, of.n, np.dtype("u4"))
    order = np.argsort(ids)
    return ids[order], view_of(of.rows, of.n, TALLY)[order], of.known


cdef tuple chosen_rows(profile_rows of, columns):
    """(ids, in order, some columns of their rows and variances)."""
    ids = view_of(of.ids, of.n, np.dtype("u4"))
    order = np.argsort(ids)
    return ids[order], chosen(columns, view_of(of.rows, of.n, TALLY), view_of(of.variances, of.n_variances, VARIANCES), order)


cdef profile_rows rows_of(found):
    cdef profile_rows to
    ids, rows, to.known = found
    to.ids, to.rows, to.n = <const uint32_t *>data_of(ids), <const profile_tally *>data_of(rows), len(ids)
    return to
