# cython: language_level=3, boundscheck=False
"""The sums of which `steve report` makes the numbers of any window: see steve/kernels/lives/cells.h.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from libc.stdint cimport uint64_t

from steve.kernels._walk cimport Analysis, Walk
from steve.kernels.records cimport array_of, data_of, enough, view_of
from steve.trace.cmemtrace cimport mt_batch, mt_live_block_t


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

import numpy as np

from steve.kernels._sums import dtype_of
from steve.kernels._walk import feed_together

MOST = 1500000  # cells of 104 bytes
SUMS = dtype_of("cells_sums").names
AFTER = ("after_bytes", "after_blocks")
GROUP = np.dtype([("stack", "u4"), ("heap", "u4"), ("thread", "u2"), ("type", "u2")])
CELL = np.dtype([("group", "u4"), ("made", "u2"), ("bin", "u2"), *((name, "u8") for name in SUMS), *((name, "i8") for name in AFTER),
                 ("epoch", "u8")])
BIN = np.dtype([("most", "u8"), ("epoch", "u8"), ("at", "u8")])
OTHER = np.dtype((np.void, sizeof(cells_other)))
SURVIVOR = np.dtype((np.void, sizeof(cells_survivor)))

if (GROUP.itemsize, CELL.itemsize, BIN.itemsize) != (sizeof(cells_group), sizeof(cell), sizeof(cells_bin)):
    raise ImportError("steve.kernels._cells: column names and cells.h disagree")


cdef class BlockCells(Analysis):
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

    def feed(self, Walk walk):
        feed_together(walk, (self,))

    def take_batch(self, Walk walk):
        cdef bint ok
        with nogil:
            ok = cells_feed(&self.c, &walk.batch)
        enough(ok)

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
        return array_of(self.c.bins, CELLS_BINS, BIN)

    def maxima(self):
        """Array of BIN: the most live bytes in each bin, and the number of operations up to that moment."""
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
