# _heaptrack.pxi - the part of _analyses.pyx that writes allocations as heaptrack does; steve.export asks for it.
#
# SPDX-License-Identifier: GPL-2.0-or-later

cdef extern from "steve/kernels/heaptrack.h" nogil:
    struct heaptrack:
        char *text
        size_t n_text
    bint heaptrack_init(heaptrack *h)
    void heaptrack_free(heaptrack *h)
    size_t heaptrack_feed(heaptrack *h, const mt_event *events, size_t n, uint64_t milliseconds)
    bint heaptrack_number(heaptrack *h, uint32_t stack, uint32_t number)
    bint heaptrack_time(heaptrack *h, uint64_t milliseconds)


cdef class HeaptrackLines:
    """The lines of a Trace's News, Frees and Resizes (steve/kernels/heaptrack.h).

    tick: as of steve._lives.Lives."""
    cdef heaptrack h
    cdef Trace trace
    cdef object tick

    def __cinit__(self, Trace trace, tick=None):
        self.trace, self.tick = trace, tick
        enough(heaptrack_init(&self.h))

    def __dealloc__(self):
        heaptrack_free(&self.h)

    def pieces(self, stack):
        """Iterate over the text, as bytes, in pieces; before a stack's first kind stack(id) is called, which says the
        number that it has in the file, and may write what it is."""
        cdef const mt_event *events
        cdef size_t n, used
        cdef uint64_t milliseconds
        cdef unsigned walked = 0
        while self.trace.next(&events, &n):
            milliseconds = self.milliseconds()
            while n > 0:
                with nogil:
                    used = heaptrack_feed(&self.h, events, n, milliseconds)
                if used > n:
                    raise MemoryError
                yield self.text()
                events += used
                n -= used
                if n > 0:
                    enough(heaptrack_number(&self.h, events[0].ref, stack(events[0].ref)))
            walked += 1
            if self.tick is not None and walked % TICK == 0:
                self.tick(*self.trace.progress())
        enough(heaptrack_time(&self.h, self.milliseconds()))
        yield self.text()

    cdef uint64_t milliseconds(self):
        cdef mt_reader_stats_t stats
        mt_get_stats(self.trace.r, &stats)
        return stats.nanoseconds // 1000000

    cdef bytes text(self):
        """What is written, which is then taken."""
        cdef bytes text = self.h.text[:self.h.n_text] if self.h.n_text else b""
        self.h.n_text = 0
        return text
