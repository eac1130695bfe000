# cython: language_level=3, boundscheck=False
"""The kernels for Python: whole walks over a trace or an ops file, at the speed of C.

Every function walks its source once, outside Python, and hands back counts. Sources are Trace and OpsFile of
steve.trace._memtrace; a source that ends early keeps the reason in its `problem`, and what came before it is
complete. tick(done, total), where there is one, is called now and then with bytes of input. Files are given
as descriptors; steve.system.output makes and names them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os

from cpython.buffer cimport PyBUF_READ
from cpython.exc cimport PyErr_CheckSignals
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdlib cimport free, malloc
from libc.string cimport memset, strlen

from steve.trace._memtrace cimport OpsFile, Trace, trace_error
from steve.trace.cmemtrace cimport *
from steve.kernels.ckernels cimport *
from steve.trace.cops cimport *

from steve.trace._memtrace import KIND_NAMES
from steve.system.errors import SteveError, WriteError

PIECE = OPS_PIECE  # operations: see memtrace/ops.h
FORMS = {"text": OPS_TEXT, "zstd": OPS_TEXT_ZSTD, "binary": OPS_BINARY}

cdef enum:
    TICK = 256  # batches between two calls of tick
    BATCHES = 16  # of a trace, written at a time
cdef uint64_t ALL = <uint64_t>-1  # operations: more than there are


cdef class Operations:
    """The operations of a Trace or an OpsFile, to be walked over once."""
    cdef op_source *s
    cdef object origin
    cdef Trace trace
    cdef OpsFile file
    cdef object tick
    cdef unsigned batches
    cdef bint given, packed

    def __cinit__(self, origin, tick=None, bint resizes=False, bint threads=False, bint times=False):
        cdef op_wishes wishes
        wishes.resizes, wishes.threads, wishes.times = resizes, threads, times
        self.origin, self.tick = origin, tick
        if isinstance(origin, Trace):
            self.trace = origin
            # a Trace of another class chooses what it delivers
            self.given = type(origin) is not Trace
            self.s = op_source_new(NULL if self.given else self.trace.r, NULL, wishes)
        else:
            self.file = origin
            self.s = op_source_new(NULL, self.file.r, wishes)
        self.packed = self.trace is not None and not (self.given or threads or times)
        if self.s == NULL:
            raise MemoryError

    def __dealloc__(self):
        op_source_free(self.s)

    cdef int next(self, const op **ops, size_t *n) except -1:
        """The next operations: 1, or 0 at the end."""
        cdef const mt_event *events
        cdef size_t n_events
        cdef int result
        if self.origin.problem is not None:
            return 0
        PyErr_CheckSignals()
        with nogil:
            result = op_source_next(self.s, ops, n)
        while result == MT_END and self.given and self.trace.next(&events, &n_events):
            op_source_give(self.s, events, n_events)
            result = op_source_next(self.s, ops, n)
        if result == MT_ERROR:
            return self.failed()
        if self.file is not None and result:
            self.expect_accesses()
        self.count(1)
        return result

    cdef int write(self, ops_writer *w, ops_form form, op_quota *q) except -1:
        """Write the next operations, of all that come q.left after q.skip; 0 at their end."""
        cdef int result = MT_MORE
        cdef unsigned i
        if q.left == 0:
            return 0
        if not self.packed or form != OPS_BINARY:
            return self.write_each(w, q)
        if self.origin.problem is not None:
            return 0
        PyErr_CheckSignals()
        with nogil:
            for i in range(BATCHES):
                if result == MT_MORE and q.left:
                    result = op_source_write(self.s, w, q)
        self.count(BATCHES)
        return self.failed() if result == MT_ERROR else result

    cdef int write_each(self, ops_writer *w, op_quota *q) except -1:
        """The same, operation by operation."""
        cdef const op *ops
        cdef size_t n, passed
        if not self.next(&ops, &n):
            return 0
        passed = min(q.skip, n)
        q.skip -= passed
        n = min(n - passed, q.left)
        q.left -= n
        with nogil:
            ops_write(w, ops + passed, n)
        return 1

    cdef int tell_unfreed(self, OpsWriter writer) except -1:
        """At the end of a trace, of which all was written: which blocks it does not free."""
        cdef bint ok = True
        if self.trace is not None and writer.form == OPS_BINARY:
            with nogil:
                ok = op_source_write_survivors(self.s, writer.w)
        return enough(ok)

    cdef int failed(self) except -1:
        if op_source_out_of_memory(self.s):
            raise MemoryError
        return self.trace.failed() if self.trace is not None else self.file.failed()

    cdef int expect_accesses(self) except -1:
        self.file.delivered = True
        if ops_reader_kind(self.file.r) == OPS_LOCK:
            raise SteveError(f"{self.file.name}: is a lockops file; the ops file it was made from is needed")
        return 0

    cdef int count(self, unsigned batches) except -1:
        self.batches += batches
        if self.tick is not None and self.batches >= TICK:
            self.batches = 0
            self.tick(*self.origin.progress())
        return 0


cdef int enough(bint ok) except -1:
    """Turn a kernel's `false` into MemoryError."""
    if not ok:
        raise MemoryError
    return 0


cdef int system_ok(int error) except -1:
    """Turn the errno of a writer into an error."""
    if error:
        raise WriteError(f"cannot write: {os.strerror(error)}")
    return 0


cdef object records(const void *data, size_t n, object dtype):
    """A numpy array with a copy of n C records."""
    import numpy as np
    if n == 0:
        return np.empty(0, dtype)
    return np.frombuffer(PyMemoryView_FromMemory(<char *>data, n * dtype.itemsize, PyBUF_READ), dtype).copy()


cdef class OpsWriter:
    """An ops writer of the trace library on a descriptor; form: one of FORMS; piece: of struct ops_piece."""
    cdef ops_writer *w
    cdef ops_form form

    def __cinit__(self, int fd, str form, bint locks, piece=(0, True, True)):
        cdef mt_error err
        cdef ops_piece c_piece
        c_piece.before, c_piece.first, c_piece.last = piece
        self.form = FORMS[form]
        self.w = ops_writer_piece(fd, self.form, OPS_LOCK if locks else OPS_ACCESS, c_piece, &err)
        if self.w == NULL:
            raise SteveError(err.text.decode("utf-8", "backslashreplace"))

    cdef finish(self):
        """Write what is buffered; raises if anything could not be written."""
        cdef mt_error err
        cdef ops_writer *w = self.w
        self.w = NULL
        if ops_writer_finish(w, &err) == MT_ERROR:
            raise WriteError(err.text.decode("utf-8", "backslashreplace"))

    def __dealloc__(self):
        if self.w != NULL:
            ops_writer_finish(self.w, NULL)


# -- An ops file made of a trace without decoding its accesses. ----------------------------------------------

def copies(origin):
    """Are the operations of this source copied to a binary file, and not written one by one?"""
    return type(origin) is Trace and ops_can_copy((<Trace>origin).r)


cdef object copy_operations(Trace trace, int fd, object tick, bint resizes):
    """As write_ops, in the binary form without threads and times, of a trace that copies() is true of."""
    cdef mt_error err
    cdef ops_copier *c = ops_copier_new(trace.r, fd, resizes, &err)
    cdef int result = MT_MORE, written
    cdef uint64_t total
    enough(c != NULL)
    try:
        while result == MT_MORE:
            PyErr_CheckSignals()
            with nogil:
                result = ops_copier_next(c)
            if tick is not None:
                tick(*trace.progress())
        if result == MT_ERROR:
            trace.failed()
        total = ops_copier_operations(c)
    finally:
        with nogil:
            written = ops_copier_finish(c, &err)
    if written == MT_ERROR:
        raise WriteError(err.text.decode("utf-8", "backslashreplace"))
    return {"ops": total, "stray": 0}


def write_ops(origin, int fd, tick=None, *, str form="text", bint resizes=False, bint threads=False,
              bint times=False, bint copy=True):
    """Write the operations as an ops file in a form of FORMS; resizes: a Resize as R, not as F and N;
    threads, times: with the thread and the time of each; copy: in the binary form with accesses as the trace has
    them, where copies() is true.

    Returns {"ops", "stray"}: how many, and accesses to no block."""
    if copy and form == "binary" and not (threads or times) and copies(origin):
        return copy_operations(origin, fd, tick, resizes)
    cdef Operations source = Operations(origin, tick, resizes, threads, times)
    cdef OpsWriter writer = OpsWriter(fd, form, False)
    cdef op_quota quota
    quota.skip, quota.left = 0, ALL
    while source.write(writer.w, writer.form, &quota):
        pass
    source.tell_unfreed(writer)
    writer.finish()
    return {"ops": ALL - quota.left, "stray": op_source_stray(source.s)}


cdef size_t keep_heap_ops(op *out, const op *ops, size_t n) nogil:
    """Copy what is no access; how many."""
    cdef size_t i, kept = 0
    for i in range(n):
        if ops[i].code == OP_NEW or ops[i].code == OP_FREE or ops[i].code == OP_RESIZE:
            out[kept] = ops[i]
            kept += 1
    return kept


def write_heap_ops(origin, int fd, tick=None):
    """Write the N, F and R of an ops file or a trace in the binary form. Returns how many."""
    cdef Operations source = Operations(origin, tick)
    cdef OpsWriter writer = OpsWriter(fd, "binary", False)
    cdef const op *ops
    cdef op *kept = NULL
    cdef size_t n, made, room = 0
    cdef uint64_t total = 0
    try:
        while source.next(&ops, &n):
            if n > room:
                free(kept)
                kept, room = <op *>malloc(n * sizeof(op)), n
                enough(kept != NULL)
            with nogil:
                made = keep_heap_ops(kept, ops, n)
                ops_write(writer.w, kept, made)
            total += made
        writer.finish()
    finally:
        free(kept)
    return total


# -- Locks guessed, by each of the three ways, and what they mean. -------------------------------------------

cdef class Unfreed:
    """The blocks that are never freed: what must be known before full locks are made.

    Of a trace or an ops file, or of None: then of operations to be fed. foretold: the file says which they are; else a
    walk over it has found them."""
    cdef unfreed u
    cdef readonly bint foretold

    def __cinit__(self, origin, tick=None):
        enough(unfreed_init(&self.u))
        if isinstance(origin, Trace):
            if not self.read_trace(origin):
                self.walk_events(origin, tick)
        elif isinstance(origin, OpsFile) and not self.read(origin):
            self.walk_operations(Operations(origin, tick))
        enough(unfreed_finish(&self.u))

    cdef int read(self, OpsFile file) except -1:
        """Take what the file says at its end, if it does."""
        cdef bytes path = os.fsencode(file.path)
        cdef const char *c_path = path
        with nogil:
            self.foretold = ops_read_survivors(c_path, &self.u.list, &self.u.n)
        return self.foretold

    cdef int read_trace(self, Trace trace) except -1:
        """The same of a trace that delivers all it has."""
        if type(trace) is Trace:
            with nogil:
                self.foretold = mt_survivors(trace.r, &self.u.list, &self.u.n)
        return self.foretold

    cdef int tell(self, OpsWriter writer) except -1:
        """Write what operations that were fed say; once."""
        enough(unfreed_finish(&self.u))
        with nogil:
            ops_writer_survivors(writer.w, self.u.list, self.u.n)
        return 0

    cdef int walk_operations(self, Operations source) except -1:
        cdef const op *ops
        cdef size_t n
        cdef bint ok
        op_source_skip_accesses(source.s)
        while source.next(&ops, &n):
            with nogil:
                ok = unfreed_feed(&self.u, ops, n)
            enough(ok)
        return 0

    cdef int walk_events(self, Trace trace, object tick) except -1:
        cdef const mt_event *events
        cdef size_t n
        cdef unsigned batches = 0
        cdef bint ok
        if type(trace) is Trace:  # one of another class chooses by accesses, too, what it delivers
            mt_pass_accesses(trace.r)
        while trace.next(&events, &n):
            with nogil:
                ok = unfreed_feed_events(&self.u, events, n)
            enough(ok)
            ticked(trace, tick, &batches)
        return 0

    def __dealloc__(self):
        unfreed_free(&self.u)

    def __len__(self):
        return self.u.n


cdef int lock_operations(lockfull *l, OpsFile file, OpsWriter writer, LockStats stats, object tick) except -1:
    """Write the locks of an ops file."""
    cdef Operations source = Operations(file, tick)
    cdef const op *ops
    cdef size_t n
    cdef bint ok
    while source.next(&ops, &n):
        with nogil:
            ok = lockfull_feed(l, ops, n)
            ops_write(writer.w, l.out, l.n_out)
        enough(ok)
        if stats is not None:
            stats.feed(l.out, l.at, l.n_out)
    return 0


cdef bint has_events(object origin):
    """Is it a trace, or an ops file that holds one in which a Resize is an F and an N?"""
    if isinstance(origin, Trace):
        return True
    return ops_reader_trace((<OpsFile>origin).r) != NULL and not ops_reader_resizes((<OpsFile>origin).r)


cdef int next_events(object origin, mt_packed *packed) except -1:
    """The next events of a source that has them."""
    if isinstance(origin, Trace):
        return (<Trace>origin).next_packed(packed)
    return (<OpsFile>origin).next_packed(packed)


cdef int lock_events(lockfull *l, object origin, OpsWriter writer, LockStats stats, object tick) except -1:
    """Write the locks of a source that has events."""
    cdef mt_packed packed
    cdef unsigned batches = 0
    cdef bint ok
    while next_events(origin, &packed):
        with nogil:
            ok = lockfull_feed_packed(l, &packed)
            ops_write(writer.w, l.out, l.n_out)
        enough(ok)
        if stats is not None:
            stats.feed(l.out, l.at, l.n_out)
        ticked(origin, tick, &batches)
    return 0


def write_lockops_full(origin, Unfreed unfreed, int fd, *, rules=(2, 1, 0), bint compat=False,
                       bint unlock_before_free=False, tick=None, str form="text", LockStats stats=None):
    """Write N, F, L and U by the life counter. `unfreed` is of an earlier walk over the same operations.

    rules: gain, decay and threshold of the life counter in any common unit, up to 10^6 each. compat: at most
    one lock event at each index, as the first Steve. unlock_before_free: a block that dies locked is unlocked
    first. Returns counts: ops walked over, blocks, locks, unlocks, unmatched (accesses to handles that are not
    live). SteveError if it turns out that what the file said about blocks that are never freed is wrong."""
    cdef OpsWriter writer = OpsWriter(fd, form, True)
    cdef lockfull l
    cdef lockfull_rules c_rules
    c_rules.gain, c_rules.decay, c_rules.threshold = rules
    c_rules.compat, c_rules.unlock_before_free = compat, unlock_before_free
    enough(lockfull_init(&l, unfreed.u.list, unfreed.u.n, c_rules))
    try:
        if has_events(origin):
            lock_events(&l, origin, writer, stats, tick)
        else:
            lock_operations(&l, origin, writer, stats, tick)
        if unfreed.foretold and origin.problem is None and not mortals_right(&l.mortals):
            raise SteveError(f"{origin.name}: is damaged: the blocks that it says are never freed are others than "
                             "those it never frees; make it again")
        writer.finish()
        if stats is not None:
            stats.finish(l.index)
        return {"ops": l.index, "blocks": l.news, "locks": l.locks, "unlocks": l.unlocks,
                "unmatched": l.unmatched}
    finally:
        lockfull_free(&l)


cdef class LockStats:
    """What locks mean for a compacting allocator, of the operations that a writer of locks makes."""
    cdef lockstats s
    cdef uint64_t end

    def __cinit__(self):
        enough(lockstats_init(&self.s))

    def __dealloc__(self):
        lockstats_free(&self.s)

    cdef int feed(self, const op *ops, const uint64_t *at, size_t n) except -1:
        cdef bint ok
        with nogil:
            ok = lockstats_feed(&self.s, ops, at, n)
        return enough(ok)

    cdef int finish(self, uint64_t end) except -1:
        self.end = end
        lockstats_finish(&self.s, end)
        return 0

    def walk(self, OpsFile file, tick=None):
        """Take the operations of a lockops file, each as one step of time."""
        cdef const op *ops
        cdef size_t n
        cdef unsigned batches = 0
        while file.next(&ops, &n):
            self.feed(ops, NULL, n)
            batches += 1
            if tick is not None and batches % TICK == 0:
                tick(*file.progress())
        self.finish(self.s.fed)

    @property
    def totals(self):
        """operations, blocks, blocks_locked, locks, unlocks, died_locked; held (operations, of all locks),
        longest."""
        cdef lockstats *s = &self.s
        return {"operations": self.end, "blocks": s.blocks_made, "blocks_locked": s.blocks_locked,
                "locks": s.locks, "unlocks": s.unlocks, "died_locked": s.died_locked, "held": s.held,
                "longest": s.longest}

    @property
    def sums(self):
        """live_blocks, live_bytes, locked_blocks, locked_bytes, each added up over all operations."""
        return dict(zip(("live_blocks", "live_bytes", "locked_blocks", "locked_bytes"), self.s.sums))

    @property
    def samples(self):
        """A list of {operation, live_blocks, live_bytes, locked_blocks, locked_bytes}, over time."""
        return [dict(self.s.samples[i]) for i in range(self.s.n_samples)]

    @property
    def holds(self):
        """Locks by how long they were held: 0 operations, then 2^(i-1) to 2^i - 1."""
        return [self.s.holds[i] for i in range(65)]


def write_lockops_stack(Trace trace, int fd, *, bint unlock_before_free=False, tick=None, str form="text",
                        LockStats stats=None):
    """Write N, F, L and U by the call stacks of a memtrace. Returns counts: ops, blocks, locks, unlocks."""
    cdef OpsWriter writer = OpsWriter(fd, form, True)
    cdef lockstack l
    cdef const mt_event *events
    cdef const mt_event *shown
    cdef size_t n
    cdef unsigned batches = 0
    cdef bint ok
    try:
        enough(lockstack_init(&l, trace.r, unlock_before_free))
        while trace.next_shown(&events, &shown, &n):
            with nogil:
                ok = lockstack_feed(&l, events, shown, n)
                ops_write(writer.w, l.out, l.n_out)
            enough(ok)
            if stats is not None:
                stats.feed(l.out, l.at, l.n_out)
            ticked(trace, tick, &batches)
        writer.finish()
        if stats is not None:
            stats.finish(l.now)
        return {"ops": l.now, "blocks": l.next_handle, "locks": l.locks, "unlocks": l.unlocks}
    finally:
        lockstack_free(&l)


cdef class SimplePlan:
    """Which blocks live long enough to stay unlocked: the first walk of the simple locks.

    threshold: the macro lifetime from which a block does, in thousandths."""
    cdef locksimple s

    def __cinit__(self, origin, *, uint64_t threshold=500, bint compat=False, tick=None):
        cdef Operations source = Operations(origin, tick)
        cdef const op *ops
        cdef size_t n
        cdef bint ok
        enough(locksimple_init(&self.s, threshold, compat))
        while source.next(&ops, &n):
            with nogil:
                ok = locksimple_feed(&self.s, ops, n)
            enough(ok)
        enough(locksimple_finish(&self.s))

    def __dealloc__(self):
        locksimple_free(&self.s)


def write_lockops_simple(origin, SimplePlan plan, int fd, tick=None, *, bint unlock_before_free=False,
                         str form="text", LockStats stats=None):
    """Write N, F, and L after the N of each block that `plan` (of the same operations) locks;
    unlock_before_free: and U before its F. Returns counts."""
    cdef Operations source = Operations(origin, tick)
    cdef OpsWriter writer = OpsWriter(fd, form, True)
    cdef locksimple_writer w
    cdef const op *ops
    cdef op *out = NULL
    cdef uint64_t *at = NULL
    cdef size_t n, made, room = 0
    enough(locksimple_writer_init(&w, &plan.s, unlock_before_free))
    try:
        while source.next(&ops, &n):
            if n > room:
                free(out)
                free(at)
                out, at = <op *>malloc(2 * n * sizeof(op)), <uint64_t *>malloc(2 * n * sizeof(uint64_t))
                room = n
                enough(out != NULL and at != NULL)
            with nogil:
                made = locksimple_write(&w, ops, n, out, at)
                ops_write(writer.w, out, made)
            enough(not w.out_of_memory)
            if stats is not None:
                stats.feed(out, at, made)
        writer.finish()
        if stats is not None:
            stats.finish(w.index)
    finally:
        free(out)
        free(at)
        locksimple_writer_free(&w)
    return {"blocks": w.news, "locks": w.locks, "accesses": plan.s.accesses, "unmatched": plan.s.unmatched}


def copy_ops(OpsFile file, int fd, tick=None, *, str form="text"):
    """Write the operations of an ops or lockops file once more, in a form of FORMS."""
    cdef const op *ops
    cdef size_t n
    cdef unsigned batches = 0
    cdef bint more = file.next(&ops, &n), ok = True
    cdef bint lists = FORMS[form] == OPS_BINARY and file.kind == "ops"
    cdef OpsWriter writer = OpsWriter(fd, form, file.kind == "lockops")
    cdef Unfreed unfreed = Unfreed(None)
    while more:
        with nogil:
            ops_write(writer.w, ops, n)
            ok = not lists or unfreed_feed(&unfreed.u, ops, n)
        enough(ok)
        batches += 1
        if tick is not None and batches % TICK == 0:
            tick(*file.progress())
        more = file.next(&ops, &n)
    if lists:
        unfreed.tell(writer)
    writer.finish()


cdef void put_handles(textout *out, const op *ops, size_t n, bint first) nogil:
    """Handles as the inside of a JSON list."""
    cdef size_t i
    for i in range(n):
        textout_reserve(out)
        if i > 0 or not first:
            textout_put_string(out, b", ", 2)
        textout_put_number(out, ops[i].handle)


def write_handles(origin, int fd, tick=None):
    """Write the handle of each operation as one JSON list (the first Steve's -json-ops). How many there
    were."""
    cdef Operations source = Operations(origin, tick)
    cdef textout *out = <textout *>malloc(sizeof(textout))
    cdef const op *ops
    cdef size_t n
    cdef uint64_t total = 0
    enough(out != NULL)
    try:
        textout_init(out, fd)
        textout_bytes(out, b"[", 1)
        while source.next(&ops, &n):
            with nogil:
                put_handles(out, ops, n, total == 0)
            total += n
            system_ok(out.error)
        textout_bytes(out, b"]", 1)
        system_ok(textout_finish(out))
    finally:
        free(out)
    return total


# -- What blocks live through: counted, and written. ---------------------------------------------------------

LIFETIME = [("handle", "u8"), ("own", "u8"), ("other", "u8")]


cdef object feed_lifetimes(Operations source, lifetimes *l):
    """What lifetimes_of returns."""
    import numpy as np
    cdef const op *ops
    cdef size_t n
    cdef bint ok
    while source.next(&ops, &n):
        with nogil:
            ok = lifetimes_feed(l, ops, n)
        enough(ok)
    lifetimes_finish(l)
    return l.accesses, l.unmatched, records(l.blocks, l.n, np.dtype(LIFETIME))


def lifetimes_of(origin, tick=None):
    """Own and other accesses of each block.

    Returns (accesses, unmatched, array); the array has the fields handle, own, other (u8), one element for
    each block in the order of their N."""
    cdef Operations source = Operations(origin, tick)
    cdef lifetimes l
    enough(lifetimes_init(&l))
    try:
        return feed_lifetimes(source, &l)
    finally:
        lifetimes_free(&l)


cdef size_t rows_left(size_t at, size_t n):
    """How many rows to write until signals are looked at again."""
    return min(n - at, <size_t>1 << 16)


def write_lifetime_pairs(int fd, blocks):
    """Write an array of LIFETIME as the inside of a JSON object, `"HANDLE": [own, other], ...`."""
    cdef textout *out = <textout *>malloc(sizeof(textout))
    cdef const uint8_t[::1] raw = blocks.view("u1")
    cdef size_t n = len(blocks), at = 0, some
    enough(out != NULL)
    try:
        textout_init(out, fd)
        while at < n:
            some = rows_left(at, n)
            PyErr_CheckSignals()
            with nogil:
                lifetext_pairs(out, <const lifetime *>&raw[0] + at, some, at > 0)
            at += some
            system_ok(out.error)
        system_ok(textout_finish(out))
    finally:
        free(out)


def write_lifetime_lines(int fd, blocks, order, *, bint compat, bint macro, uint64_t accesses):
    """Write a line of the first Steve's statistics for each of the numbers `order` (i8) of blocks, an array of
    LIFETIME: its macro or its micro lifetime. compat, accesses: of struct lifetext."""
    cdef lifetext t
    cdef const uint8_t[::1] raw = blocks.view("u1")
    cdef const int64_t[::1] numbers = order
    cdef size_t n = len(order), at = 0, some
    if n == 0:
        return
    t.out = <textout *>malloc(sizeof(textout))
    enough(t.out != NULL)
    t.blocks, t.compat, t.accesses = <const lifetime *>&raw[0], compat, accesses
    t.kind = LIFETEXT_MACRO if macro else LIFETEXT_MICRO
    try:
        textout_init(t.out, fd)
        while at < n:
            some = rows_left(at, n)
            PyErr_CheckSignals()
            with nogil:
                lifetext_lines(&t, &numbers[at], some)
            at += some
            system_ok(t.out.error)
        system_ok(textout_finish(t.out))
    finally:
        free(t.out)


cdef int ticked(object source, object tick, unsigned *batches) except -1:
    batches[0] += 1
    if tick is not None and batches[0] % TICK == 0:
        tick(*source.progress())
    return 0


def write_classic(Trace trace, int fd, tick=None):
    """Write the events as classic text. Returns counts: lines, bad_frees and others (events left out)."""
    cdef textout *out = <textout *>malloc(sizeof(textout))
    cdef classic_counts counts
    cdef const mt_event *events
    cdef size_t n
    cdef unsigned batches = 0
    counts.lines = counts.bad_frees = counts.others = 0
    enough(out != NULL)
    try:
        textout_init(out, fd)
        while trace.next(&events, &n):
            with nogil:
                classic_write(out, events, n, &counts)
            system_ok(out.error)
            ticked(trace, tick, &batches)
        system_ok(textout_finish(out))
    finally:
        free(out)
    return counts


cdef void dump_line(void *ctx, const char *text) noexcept nogil:
    textout_bytes(<textout *>ctx, text, strlen(text))
    textout_bytes(<textout *>ctx, b"\n", 1)


def dump(str path, int fd, *, bint salvage=False):
    """Write every record of a trace as text. TraceError at damage, after all before it was written."""
    cdef textout *out = <textout *>malloc(sizeof(textout))
    cdef bytes name = os.fsencode(path)
    cdef const char *c_name = name
    cdef unsigned flags = MT_OPEN_SALVAGE if salvage else 0
    cdef mt_error err
    cdef int result
    enough(out != NULL)
    try:
        textout_init(out, fd)
        with nogil:
            result = mt_dump(c_name, flags, dump_line, out, &err)
        system_ok(textout_finish(out))
        if result == MT_ERROR:
            raise trace_error(path, "standard input" if path == "-" else path, &err, False)
    finally:
        free(out)


cdef class Summary:
    """Totals of a trace, from one walk over it; see steve/kernels/totals/summary.h for what is counted how."""
    cdef summary s

    def __cinit__(self, Trace trace, tick=None):
        cdef mt_packed packed
        cdef uint32_t stacks
        cdef unsigned batches = 0
        cdef bint ok
        summary_init(&self.s)
        if trace.midway:
            self.enter(trace)
        while trace.next_packed(&packed):
            stacks = mt_count_stacks(trace.r)
            with nogil:
                ok = summary_feed_packed(&self.s, &packed, stacks)
            enough(ok)
            ticked(trace, tick, &batches)
        summary_finish(&self.s)

    def __dealloc__(self):
        summary_free(&self.s)

    cdef int enter(self, Trace trace) except -1:
        """Take the blocks that live where the trace is read from."""
        cdef mt_live_block_t block
        cdef uint32_t slot
        mt_read_checkpoint(trace.r)
        for slot in range(mt_count_slots(trace.r)):
            if mt_get_live_block(trace.r, slot, &block):
                enough(summary_enter(&self.s, &block))
        return 0

    @property
    def threads(self):
        """How many threads made events."""
        return summary_threads(&self.s)

    @property
    def events(self):
        """Events by kind name."""
        return {name: self.s.events[i] for i, name in enumerate(KIND_NAMES)}

    @property
    def totals(self):
        """allocated, freed, read, written, live_bytes, live_blocks, peak_bytes, peak_blocks, lost,
        last_event."""
        cdef summary *s = &self.s
        return {"allocated": s.allocated, "freed": s.freed,
                "read": s.accessed[<int>MT_LOAD] + s.accessed[<int>MT_MODIFY],
                "written": s.accessed[<int>MT_STORE] + s.accessed[<int>MT_MODIFY],
                "live_bytes": s.live_bytes, "live_blocks": s.live_blocks, "peak_bytes": s.peak_bytes,
                "peak_blocks": s.peak_blocks, "lost": s.lost, "last_event": s.last_event}

    def part(self):
        """What a summary of a part of a trace has to tell, all in one dictionary; see steve.parallel.rounds."""
        import numpy as np
        block = np.dtype([("size", "u8"), ("stack", "u4"), ("state", "u4")])
        blocks = records(self.s.blocks, self.s.room, block)
        live = np.flatnonzero(blocks["state"] == <int>SUMMARY_LIVE)
        return {"events": self.events, "totals": self.totals, "stacks": self.stacks(),
                "threads": records(self.s.threads, 1024, np.dtype("u8")), "live": live,
                "blocks": blocks[live], "ended": records(self.s.ended, self.s.n_ended, np.dtype("u4"))}

    def stacks(self):
        """An array with a row for each stack id: news, resizes, bytes, live_blocks, live_bytes (u8)."""
        import numpy as np
        names = ["news", "resizes", "bytes", "live_blocks", "live_bytes"]
        dtype = np.dtype([(name, "u8") for name in names])
        return records(self.s.stacks, self.s.n_stacks, dtype)


# -- A part of a trace; steve.parallel.rounds joins the results. ---------------------------------------------

def survey_of(Trace trace, *, bint resizes=True, tick=None):
    """(operations, handles given out, array by slot of what it holds at the end: see steve/kernels/totals/part_sizes.h)."""
    import numpy as np
    cdef survey s
    cdef const mt_event *events
    cdef size_t n
    cdef unsigned batches = 0
    cdef bint ok
    mt_pass_accesses(trace.r)
    survey_init(&s, resizes)
    try:
        while trace.next(&events, &n):
            with nogil:
                ok = survey_feed(&s, events, n)
            enough(ok)
            ticked(trace, tick, &batches)
        return s.operations + trace.stats()["passed"], s.handles, records(s.slots, s.n_slots, np.dtype("u8"))
    finally:
        survey_free(&s)


def write_ops_piece(Trace trace, int fd, handles, uint64_t next_handle, uint64_t skip, uint64_t count, *,
                    piece, str form="text", bint resizes=False):
    """Write `count` operations of what the trace will deliver, after `skip` that another piece holds.

    handles: by slot, plus 1, of the blocks that live here (0 = none); next_handle: of the next New. piece:
    (operations in the pieces before, is it the first, the last). There may be fewer: then the trace ended before.
    Returns how many accesses to no block it met."""
    cdef Operations source = Operations(trace, None, resizes)
    cdef OpsWriter writer = OpsWriter(fd, form, False, piece)
    cdef const uint64_t[::1] known = handles
    cdef op_quota quota
    quota.skip, quota.left = skip, count
    enough(op_source_begin(source.s, &known[0] if len(known) else NULL, len(known), next_handle))
    while source.write(writer.w, writer.form, &quota):
        pass
    if piece[2]:
        source.tell_unfreed(writer)
    writer.finish()
    return op_source_stray(source.s)


def lifetimes_piece(Trace trace, handles, uint64_t next_handle):
    """As lifetimes_of, of a part of a trace: of its own blocks and of those that live where it begins, each with what
    it and others are accessed within the part. handles, next_handle: as of write_ops_piece."""
    cdef Operations source = Operations(trace, None)
    cdef const uint64_t[::1] known = handles
    cdef lifetimes l
    cdef op born
    cdef size_t i
    cdef bint ok = True
    enough(op_source_begin(source.s, &known[0] if len(known) else NULL, len(known), next_handle))
    memset(&born, 0, sizeof(born))
    born.code = OP_NEW
    enough(lifetimes_init(&l))
    try:
        for i in range(len(known)):
            born.handle = known[i] - 1
            if known[i]:
                ok = ok and lifetimes_feed(&l, &born, 1)
        enough(ok)
        return feed_lifetimes(source, &l)
    finally:
        lifetimes_free(&l)
