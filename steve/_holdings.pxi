# _holdings.pxi - the part of _analyses.pyx that sums what each stack holds; steve.export asks for it.
#
# SPDX-License-Identifier: GPL-2.0-or-later

cdef extern from "steve/kernels/holdings.h" nogil:
    struct holding:
        uint64_t held
    struct holdings:
        holding *rows
        uint32_t *stacks
        size_t n
        uint64_t time, held, peak, peak_time
        bint reached
    void holdings_init(holdings *h)
    void holdings_free(holdings *h)
    size_t holdings_feed(holdings *h, const mt_event *events, size_t n, uint64_t until)
    bint holdings_feed_packed(holdings *h, const mt_packed *p)
    void holdings_finish(holdings *h, uint64_t time)


HOLDING = columns("bytes blocks held held_blocks most most_blocks peak peak_blocks lifetime "
                  "bytes_read bytes_written seen")
assert HOLDING.itemsize == sizeof(holding)


cdef class Holdings:
    """What each stack holds over time (steve/kernels/holdings.h): one walk over a Trace that was not read before.

    walk() needs no accesses. tick: as of steve._lives.Lives."""
    cdef holdings h
    cdef Trace trace
    cdef object tick
    cdef const mt_event *events
    cdef size_t n
    cdef unsigned walked

    def __cinit__(self, Trace trace, tick=None):
        self.trace, self.tick = trace, tick
        holdings_init(&self.h)

    def __dealloc__(self):
        holdings_free(&self.h)

    def walk(self, uint64_t until=UINT64_MAX):
        """Go on up to and with the first New, Free or Resize at or after a time: True; False if the end came before."""
        cdef size_t used
        while self.read():
            with nogil:
                used = holdings_feed(&self.h, self.events, self.n, until)
            if used > self.n:
                raise MemoryError
            self.events += used
            self.n -= used
            if self.h.reached:
                return True
        return False

    cdef bint read(self) except -1:
        """Have events at hand; false at the end."""
        if self.n > 0:
            return True
        if not self.trace.next(&self.events, &self.n):
            return False
        self.pause()
        return True

    cdef int pause(self) except -1:
        self.walked += 1
        if self.tick is not None and self.walked % TICK == 0:
            self.tick(*self.trace.progress())
        return 0

    def walk_all(self):
        """Go to the end, and count accesses on the way."""
        cdef mt_packed packed
        cdef bint ok
        while self.trace.next_packed(&packed):
            with nogil:
                ok = holdings_feed_packed(&self.h, &packed)
            enough(ok)
            self.pause()

    def finish(self):
        """The walk is at its end: reckon in the trace's."""
        holdings_finish(&self.h, self.trace.stats()["totals"]["instructions"])

    @property
    def time(self):
        """Now, in instructions."""
        return self.h.time

    @property
    def held(self):
        """Bytes, now."""
        return self.h.held

    @property
    def peak(self):
        """The most bytes held until now, and when they were."""
        return self.h.peak, self.h.peak_time

    def stacks(self):
        """The ids of the stacks that have blocks, in the order of their first: an array."""
        return array_of(self.h.stacks, self.h.n, np.dtype("u4"))

    def rows(self):
        """An array of HOLDING, for each of stacks()."""
        return array_of(self.h.rows, self.h.n, HOLDING)
