# cython: language_level=3, boundscheck=False
"""What each stack holds over time, and allocations written as heaptrack does, of a whole trace.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import numpy as np

from libc.stdint cimport UINT16_MAX, UINT64_MAX, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from steve.kernels.ckernels cimport keyed_rows
from steve.kernels.records cimport array_of, enough
from steve.trace._memtrace cimport Trace
from steve.trace.cmemtrace cimport *

from steve.kernels._sums import HOLDING

cdef enum:
    TICK = 256  # batches of events between two calls of tick

cdef extern from "memtrace/sample.h" nogil:
    double mt_event_weight(const mt_event *e)
    uint64_t mt_scaled(double weight, uint64_t x)

cdef extern from "steve/kernels/lives/holdings.h" nogil:
    struct holding:
        pass
    struct holdings:
        holding *rows
        keyed_rows of_stacks
        uint64_t time, held, peak, peak_time, bytes
        bint reached
    struct holdings_until:
        uint64_t time, bytes, held
    void holdings_init(holdings *h)
    void holdings_free(holdings *h)
    size_t holdings_feed_until(holdings *h, const mt_event *events, size_t n, const holdings_until *until)
    bint holdings_feed(holdings *h, const mt_batch *p)
    void holdings_finish(holdings *h, uint64_t time)


cdef struct thread_row:
    uint64_t allocs, bytes, frees, time, weight, state

THREAD = np.dtype([(name, "u8") for name in ("allocs", "bytes", "frees", "time", "weight", "state")])


cdef class Activity:
    """What threads and virtual machines do: by thread, the News, the bytes of News and Resizes, the Frees, the time, and the
    weights of samples; by state of the virtual machine, the time and the weights.

    The time between two events belongs to the thread of the first one, and to the state of that thread."""
    cdef thread_row *threads
    cdef uint64_t times[MT_VMS + 1]
    cdef uint64_t weights[MT_VMS + 1]
    cdef uint64_t time
    cdef uint64_t blocks  # that the latest block stands for, in a sample; by blocks, as all of them
    cdef uint16_t thread

    def __cinit__(self):
        self.blocks = 1
        self.threads = <thread_row *>calloc(UINT16_MAX + 1, sizeof(thread_row))
        enough(self.threads != NULL)

    def __dealloc__(self):
        free(self.threads)

    cdef void add(self, const mt_event *events, size_t n) noexcept nogil:
        cdef size_t i
        cdef const mt_event *e
        cdef thread_row *row
        for i in range(n):
            e = &events[i]
            if e.time > self.time:
                row = &self.threads[self.thread]
                row.time += e.time - self.time
                self.times[row.state] += e.time - self.time
                self.time = e.time
            self.thread = e.thread
            row = &self.threads[e.thread]
            if e.kind == MT_NEW:
                self.blocks = mt_scaled(mt_event_weight(e), 1)
                row.allocs += self.blocks
                row.bytes += mt_scaled(mt_event_weight(e), e.size)
            elif e.kind == MT_RESIZE:
                row.bytes += self.blocks * e.size
            elif e.kind == MT_FREE:
                row.frees += mt_scaled(mt_event_weight(e), 1)
            elif e.kind == MT_STATE:
                row.state = 1 + min(e.how & 15, MT_VMS - 1)
            elif e.kind == MT_SAMPLE:
                row.weight += e.size
                self.weights[1 + min(e.how & 15, MT_VMS - 1) if e.heap else 0] += e.size

    def by_thread(self):
        """The numbers of the threads that did something, and an array of THREAD for them."""
        rows = array_of(self.threads, UINT16_MAX + 1, THREAD)
        used = np.flatnonzero(rows["allocs"] | rows["frees"] | rows["time"] | rows["weight"])
        return used, rows[used]

    def by_state(self):
        """Arrays of the times and the weights of samples: of no state, and of each state of mt_vm."""
        return (np.array([self.times[i] for i in range(MT_VMS + 1)], "u8"),
                np.array([self.weights[i] for i in range(MT_VMS + 1)], "u8"))


cdef class Holdings:
    """What each stack holds over time (steve/kernels/lives/holdings.h): one walk over a Trace that was not read before.

    walk() needs no accesses. tick: as of steve.kernels._lives.Lives. sampling: also sum the samples of stacks. activity:
    None, or an Activity that gets all events but accesses."""
    cdef holdings h
    cdef Trace trace
    cdef object tick
    cdef const mt_event *events
    cdef size_t n
    cdef unsigned walked
    cdef bint sampling
    cdef dict weights  # of samples, by stack
    cdef Activity activity

    def __cinit__(self, Trace trace, tick=None, *, bint sampling=False, Activity activity=None):
        self.trace, self.tick, self.activity = trace, tick, activity
        self.sampling, self.weights = sampling, {}
        holdings_init(&self.h)

    def __dealloc__(self):
        holdings_free(&self.h)

    def walk(self, uint64_t until=UINT64_MAX, *, uint64_t allocated=UINT64_MAX, uint64_t held=UINT64_MAX):
        """Go on up to and with the first New, Free or Resize at or after the time `until`, or after which so many bytes
        were allocated in all, or are held. Returns False if the end came before."""
        cdef holdings_until limits = holdings_until(until, allocated, held)
        cdef size_t used
        while self.read():
            with nogil:
                used = holdings_feed_until(&self.h, self.events, self.n, &limits)
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
        self.see(self.events, self.n)
        self.pause()
        return True

    cdef int see(self, const mt_event *events, size_t n) except -1:
        """Add the weights of samples, and what threads do."""
        cdef size_t i
        if self.activity is not None:
            self.activity.add(events, n)
        if self.sampling:
            for i in range(n):
                if events[i].kind == MT_SAMPLE:
                    self.weights[events[i].ref] = self.weights.get(events[i].ref, 0) + events[i].size
        return 0

    cdef int pause(self) except -1:
        self.walked += 1
        if self.tick is not None and self.walked % TICK == 0:
            self.tick(*self.trace.progress())
        return 0

    def walk_all(self):
        """Go to the end, and count accesses on the way."""
        while self.advance():
            self.pause()

    def advance(self, unsigned batches=1):
        """Go on by so many batches, and count the accesses that the trace delivers. False at the end."""
        cdef mt_batch batch
        cdef bint ok
        while batches > 0:
            if not self.trace.next_batch(&batch):
                return False
            with nogil:
                ok = holdings_feed(&self.h, &batch)
            enough(ok)
            self.see(batch.events, batch.n_events)
            batches -= 1
        return True

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
    def allocated(self):
        """Bytes requested until now, in all."""
        return self.h.bytes

    @property
    def peak(self):
        """The most bytes held until now, and when they were."""
        return self.h.peak, self.h.peak_time

    def stacks(self):
        """The ids of the stacks that have blocks, in the order of their first: an array."""
        return array_of(self.h.of_stacks.keys, self.h.of_stacks.n, np.dtype("u4"))

    def samples(self):
        """The ids of the stacks that have samples, and the weights of these: two arrays."""
        return np.array(list(self.weights), "u4"), np.array(list(self.weights.values()), "u8")

    def rows(self):
        """An array of HOLDING, for each of stacks()."""
        return array_of(self.h.rows, self.h.of_stacks.n, HOLDING)


# -- Allocations written as heaptrack does. ------------------------------------------------------------------

cdef extern from "steve/kernels/lives/heaptrack.h" nogil:
    struct heaptrack:
        char *text
        size_t n_text
    bint heaptrack_init(heaptrack *h)
    void heaptrack_free(heaptrack *h)
    size_t heaptrack_feed(heaptrack *h, const mt_event *events, size_t n, uint64_t milliseconds)
    bint heaptrack_number(heaptrack *h, uint32_t stack, uint32_t number)
    bint heaptrack_time(heaptrack *h, uint64_t milliseconds)


cdef class HeaptrackLines:
    """The lines of a Trace's News, Frees and Resizes (steve/kernels/lives/heaptrack.h).

    tick: as of steve.kernels._lives.Lives."""
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
