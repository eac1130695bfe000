# cython: language_level=3, boundscheck=False
"""profile: the kernel of `steve report` for Python: batches of events in, numpy arrays out.

Only a door: profile.h says what is gathered and what each number means. The column names below follow the
order of the fields there, which are all 64-bit integers; a wrong count is caught when the module is loaded.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from libc.stdint cimport uint32_t, uint64_t


cdef extern from "steve/kernels/base/timeline.h" nogil:
    struct timeline_bin:
        pass


cdef extern from "steve/kernels/lives/profile.h" nogil:
    enum: PROFILE_SIZES
    enum: PROFILE_LIFETIMES
    struct mt_event:
        pass
    struct profile:
        pass
    struct profile_tally:
        pass
    struct profile_mark:
        pass
    struct profile_totals:
        pass
    profile *profile_new(uint32_t bins)
    void profile_free(profile *p)
    bint profile_feed(profile *p, const mt_event *events, size_t n, uint32_t stacks, uint32_t heaps)
    void profile_finish(profile *p)
    const profile_totals *profile_get_totals "profile_totals"(const profile *p)
    const profile_tally *profile_stacks(const profile *p, size_t *n)
    const profile_tally *profile_heaps(const profile *p, size_t *n)
    const timeline_bin *profile_timeline(const profile *p, size_t *n)
    const profile_mark *profile_marks(const profile *p, size_t *n)
    const uint64_t *profile_map_blocks(const profile *p)
    const uint64_t *profile_map_bytes(const profile *p)

import numpy as np

from steve.trace._memtrace import KIND_NAMES

TALLY = np.dtype([(name, "u8") for name in (
    "blocks", "resizes", "bytes", "frees", "live_blocks", "live_bytes", "peak_blocks", "peak_bytes", "reads",
    "writes", "bytes_read", "bytes_written", "unread_blocks", "unread_bytes", "unwritten_blocks",
    "unwritten_bytes", "lifetimes", "epoch")])
BIN = np.dtype([(name, "u8") for name in (
    "operations_end", "time_end", "allocated_end", "live_bytes_end", "live_bytes_most", "live_blocks_end",
    "live_blocks_most", "reads", "writes", "news", "frees")])
MARK = np.dtype([(name, "u8") for name in ("operation", "time", "string")])
EVENTS = tuple("lost_records" if name == "lost" else name for name in KIND_NAMES)
TOTALS = np.dtype([(name, "u8") for name in (
    *EVENTS, "operations", "allocated", "freed", "bytes_read", "bytes_written", "live_bytes", "live_blocks",
    "peak_bytes", "peak_operation", "peak_time", "peak_allocated", "peak_blocks", "most_blocks", "time", "lost",
    "marks")])

if (TALLY.itemsize, BIN.itemsize, MARK.itemsize, TOTALS.itemsize) != (
        sizeof(profile_tally), sizeof(timeline_bin), sizeof(profile_mark), sizeof(profile_totals)):
    raise ImportError("steve.kernels._profile: column names and profile.h disagree")


cdef object copied(const void *data, size_t n, object dtype):
    """A numpy array of its own with the n elements at `data`."""
    if n == 0:
        return np.zeros(0, dtype)
    return np.frombuffer((<const char *>data)[:n * <size_t>dtype.itemsize], dtype).copy()


cdef class Profile:
    """Feed it every batch of a trace, finish it, read the results."""

    cdef profile *p
    cdef bint finished

    def __cinit__(self, int bins=600):
        if bins < 2 or bins % 2:
            raise ValueError("bins: an even number from 2 on")
        self.p = profile_new(bins)
        if self.p is NULL:
            raise MemoryError()

    def __dealloc__(self):
        profile_free(self.p)

    def feed(self, batch, uint32_t stacks, uint32_t heaps):
        """batch: contiguous numpy array of struct mt_event, as steve.trace._memtrace gives them; stacks and
        heaps: how many of each the trace has defined by now."""
        cdef const unsigned char[::1] raw = batch.view(np.uint8)
        cdef size_t n = batch.shape[0]
        cdef bint ok
        if self.finished:
            raise ValueError("the profile is finished")
        if raw.shape[0] != <Py_ssize_t>(n * sizeof(mt_event)):
            raise ValueError("not an array of events")
        if n == 0:
            return
        with nogil:
            ok = profile_feed(self.p, <const mt_event *>&raw[0], n, stacks, heaps)
        if not ok:
            raise MemoryError()

    def finish(self):
        """Account for the blocks still live. Once; nothing can be fed afterwards."""
        if not self.finished:
            profile_finish(self.p)
        self.finished = True

    def totals(self):
        """Dictionary of the names in TOTALS."""
        row = copied(profile_get_totals(self.p), 1, TOTALS)[0]
        return {name: int(row[name]) for name in TOTALS.names}

    def stacks(self):
        """Array of TALLY by stack id."""
        cdef size_t n
        cdef const profile_tally *data = profile_stacks(self.p, &n)
        return copied(data, n, TALLY)

    def heaps(self):
        """Array of TALLY by heap id."""
        cdef size_t n
        cdef const profile_tally *data = profile_heaps(self.p, &n)
        return copied(data, n, TALLY)

    def timeline(self):
        """Array of BIN in order."""
        cdef size_t n
        cdef const timeline_bin *data = profile_timeline(self.p, &n)
        return copied(data, n, BIN)

    def marks(self):
        """Array of MARK: the first ones of the trace."""
        cdef size_t n
        cdef const profile_mark *data = profile_marks(self.p, &n)
        return copied(data, n, MARK)

    def lifetime_map(self):
        """(blocks, bytes): uint64 arrays [size bin, lifetime bin]; the last lifetime bin is `never freed`."""
        shape = (PROFILE_SIZES, PROFILE_LIFETIMES)
        cells = PROFILE_SIZES * PROFILE_LIFETIMES
        u8 = np.dtype("u8")
        return (copied(profile_map_blocks(self.p), cells, u8).reshape(shape),
                copied(profile_map_bytes(self.p), cells, u8).reshape(shape))
