# cython: language_level=3, boundscheck=False
"""The kernels of `steve report` for Python: all that happened to the heap, the sums of which the page makes the numbers of any
window, and the bytes of accesses that belong to a Lua instruction instead of their sites.

profile.h and cells.h in steve/kernels/lives/, steve/kernels/lines/lua_work.h, and steve/kernels/base/sums.def say what each
number means.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import numpy as np

from libc.stdint cimport uint32_t, uint64_t

from steve.kernels._walk cimport Analysis, BatchAnalysis, Walk
from steve.kernels.ckernels cimport life, live_at, live_blocks
from steve.kernels.records cimport array_of, data_of, enough, view_of
from steve.trace.cmemtrace cimport *

from steve.kernels._sums import chosen, dtype_of, merged, variances_of
from steve.system.errors import SteveError
from steve.trace._memtrace import KIND_NAMES

cdef extern from "steve/kernels/base/timeline.h" nogil:
    struct timeline_bin:
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

TALLY, VARIANCES, BIN = dtype_of("profile_tally"), variances_of("profile_tally"), dtype_of("timeline_bin")
MARK = np.dtype([(name, "u8") for name in ("operation", "time", "string")])
EVENTS = tuple("lost_records" if name == "lost" else name for name in KIND_NAMES)
TOTALS = dtype_of("profile_totals")
LIVE_AT = np.dtype((np.void, sizeof(live_at)))

if MARK.itemsize != sizeof(profile_mark):
    raise ImportError("steve.kernels._report: column names and profile.h disagree")


cdef class HeapProfile(BatchAnalysis):
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
        cdef const life *lives = <const life *>data_of(batch)
        cdef size_t n = len(batch)
        cdef bint ok
        with nogil:
            ok = profile_add_lives(self.p, lives, n)
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


# -- Windows. -------------------------------------------------------------------------------------------------

cdef extern from "steve/kernels/lives/cells.h" nogil:
    enum: CELLS_BINS
    struct cells_group:
        pass
    struct cell:
        pass
    struct cells_other:
        pass
    struct cells_survivor:
        pass
    struct cells_bin:
        pass
    struct cells:
        uint64_t operations, width
        const cells_bin *bins
        const cell *cells
        const cells_group *groups
        const cells_other *others
        const cells_survivor *survivors
        size_t n_cells, n_groups, n_others, n_survivors
    struct cells_partial:
        uint64_t operations, width
        const cells_bin *bins
        const cell *cells
        const cells_group *groups
        const cells_other *others
        const cells_survivor *survivors
        size_t n_cells, n_groups, n_others, n_survivors
    void cells_init(cells *c, size_t most)
    void cells_free(cells *c)
    void cells_begin_shard(cells *c, uint64_t operations, uint64_t total)
    bint cells_enter(cells *c, const mt_live_block_t *live)
    bint cells_feed(cells *c, const mt_batch *batch)
    bint cells_finish(cells *c)
    bint cells_list_survivors(cells *c)
    bint cells_merge(cells *whole, const cells_partial *shard)

MOST = 1500000  # cells of 104 bytes
SUMS = dtype_of("cells_sums").names
AFTER = ("after_bytes", "after_blocks")
GROUP = np.dtype([("stack", "u4"), ("heap", "u4"), ("thread", "u2"), ("type", "u1"), ("size", "u1")])
CELL = np.dtype([("group", "u4"), ("made", "u2"), ("bin", "u2"), *((name, "u8") for name in SUMS), *((name, "i8") for name in AFTER),
                 ("epoch", "u8")])
MAXIMUM = np.dtype([("most", "u8"), ("epoch", "u8"), ("at", "u8")])
OTHER = np.dtype((np.void, sizeof(cells_other)))
SURVIVOR = np.dtype((np.void, sizeof(cells_survivor)))

if (GROUP.itemsize, CELL.itemsize, MAXIMUM.itemsize) != (sizeof(cells_group), sizeof(cell), sizeof(cells_bin)):
    raise ImportError("steve.kernels._report: column names and cells.h disagree")


cdef class BlockCells(BatchAnalysis):
    """What happened to the blocks of each group, by bin. The result is the object itself. most: see cells.h."""

    cdef cells c
    needs = ("operations",)

    def __cinit__(self, size_t most=MOST):
        cells_init(&self.c, most)

    def __dealloc__(self):
        cells_free(&self.c)

    cdef int begin_shard(self, checkpoint) except -1:
        cells_begin_shard(&self.c, checkpoint.operations, checkpoint.total)
        return 0

    cdef int enter(self, Walk walk, const mt_live_block_t *block) except -1:
        return enough(cells_enter(&self.c, block))

    cdef bint feed_batch(self, const mt_batch *batch) noexcept nogil:
        return cells_feed(&self.c, batch)

    def partial(self):
        """(operations, width, bins, cells, groups, others, survivors)."""
        cdef bint ok
        with nogil:
            ok = cells_finish(&self.c) and cells_list_survivors(&self.c)
        enough(ok)
        return (self.c.operations, self.c.width, self._bins(), array_of(self.c.cells, self.c.n_cells, CELL), self.groups(),
                array_of(self.c.others, self.c.n_others, OTHER),
                array_of(self.c.survivors, self.c.n_survivors, SURVIVOR))

    def merge(self, shard):
        cdef cells_partial to
        cdef bint ok
        operations, width, bins, found, groups, others, survivors = shard
        to.operations, to.width = operations, width
        to.bins = <const cells_bin *>data_of(bins)
        to.cells, to.n_cells = <const cell *>data_of(found), len(found)
        to.groups, to.n_groups = <const cells_group *>data_of(groups), len(groups)
        to.others, to.n_others = <const cells_other *>data_of(others), len(others)
        to.survivors, to.n_survivors = <const cells_survivor *>data_of(survivors), len(survivors)
        with nogil:
            ok = cells_merge(&self.c, &to)
        enough(ok)

    def end(self, uint64_t time, bint between):
        cdef bint ok
        with nogil:
            ok = cells_finish(&self.c)
        enough(ok)

    def result(self):
        return self

    def width(self):
        """Operations in a bin."""
        return self.c.width

    def operations(self):
        """Number of all operations."""
        return self.c.operations

    def _bins(self):
        return array_of(self.c.bins, CELLS_BINS, MAXIMUM)

    def maxima(self):
        """Array of MAXIMUM: the most live bytes in each bin, and the number of operations up to that moment."""
        return self._bins()[:(self.c.operations + self.c.width - 1) // self.c.width]

    def groups(self):
        """Array of GROUP by number."""
        return array_of(self.c.groups, self.c.n_groups, GROUP)

    def cells(self):
        """Array of the columns of CELL but the epoch, without cells of which all sums are 0, by group and bins."""
        found = view_of(self.c.cells, self.c.n_cells, CELL)
        some = np.flatnonzero(found.view("u8").reshape(len(found), CELL.itemsize // 8)[:, 1:1 + len(SUMS)].any(axis=1))
        order = np.lexsort([found[name][some] for name in ("bin", "made", "group")])
        return found[some[order]][[name for name in CELL.names if name != "epoch"]]


# -- Lua instructions. ----------------------------------------------------------------------------------------

cdef extern from "steve/kernels/lines/lua_work.h" nogil:
    struct luacode_thread:
        pass
    struct luawork_bytes:
        pass
    struct luawork_sums:
        const luawork_bytes *of
        size_t n
    struct luawork:
        pass
    luawork *luawork_new(const mt_reader *reader)
    void luawork_free(luawork *w)
    bint luawork_begin_shard(luawork *w, const luacode_thread *threads, size_t n)
    bint luawork_enter(luawork *w, const mt_live_block_t *live)
    bint luawork_feed(luawork *w, const mt_batch *batch)
    void luawork_settle(luawork *w)
    const luawork_sums *luawork_sites(const luawork *w)
    const luawork_sums *luawork_stacks(const luawork *w)
    const luawork_sums *luawork_places(const luawork *w)

BYTES = dtype_of("luawork_bytes")


cdef class LuaWork(BatchAnalysis):
    """The result: (by site, by stack, by place), arrays of BYTES, to be added to the accesses of sites modulo 2^64. They
    may end before the last site, stack and place."""

    cdef luawork *w
    needs = ("threads",)

    def __dealloc__(self):
        luawork_free(self.w)

    def begin(self, Walk walk, checkpoint):
        self.w = luawork_new(walk.trace.r)
        enough(self.w != NULL)
        Analysis.begin(self, walk, checkpoint)

    cdef int begin_shard(self, checkpoint) except -1:
        threads = checkpoint.threads
        if threads is None:
            return enough(luawork_begin_shard(self.w, NULL, 0))
        return enough(luawork_begin_shard(self.w, <const luacode_thread *>data_of(threads), len(threads)))

    cdef int enter(self, Walk walk, const mt_live_block_t *block) except -1:
        return enough(luawork_enter(self.w, block))

    cdef bint feed_batch(self, const mt_batch *batch) noexcept nogil:
        return luawork_feed(self.w, batch)

    def partial(self):
        luawork_settle(self.w)
        return sums_of(luawork_sites(self.w)), sums_of(luawork_stacks(self.w)), sums_of(luawork_places(self.w))

    def merge(self, shard):
        before = self.merged or (np.zeros(0, BYTES),) * 3
        self.merged = tuple(merged("luawork_bytes", *both) for both in zip(before, shard))


cdef object sums_of(const luawork_sums *sums):
    return array_of(sums.of, sums.n, BYTES)
