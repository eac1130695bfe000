# cython: language_level=3, boundscheck=False
"""The bytes of accesses that belong to a Lua instruction instead of their sites: see steve/kernels/lines/lua_work.h.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from libc.stdint cimport uint32_t, uint64_t

from steve.kernels._walk cimport Analysis, Walk
from steve.kernels.records cimport array_of, data_of, enough
from steve.trace.cmemtrace cimport mt_batch, mt_live_block_t, mt_reader


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

import numpy as np

from steve.kernels._sums import dtype_of, merged

BYTES = dtype_of("luawork_bytes")


cdef class LuaWork(Analysis):
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

    def take_batch(self, Walk walk):
        cdef bint ok
        with nogil:
            ok = luawork_feed(self.w, &walk.batch)
        enough(ok)

    def partial(self):
        luawork_settle(self.w)
        return sums_of(luawork_sites(self.w)), sums_of(luawork_stacks(self.w)), sums_of(luawork_places(self.w))

    def merge(self, shard):
        before = self.merged or (np.zeros(0, BYTES),) * 3
        self.merged = tuple(merged("luawork_bytes", *both) for both in zip(before, shard))


cdef object sums_of(const luawork_sums *sums):
    return array_of(sums.of, sums.n, BYTES)
