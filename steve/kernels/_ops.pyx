# cython: language_level=3, boundscheck=False
"""The kernels for Python: whole walks over a trace or an ops file, at the speed of C.

Every function walks over its source once, outside Python, and returns counts. Sources are Trace and OpsFile of
steve.trace._memtrace. If a source ends early, its `problem` has the reason, and all before it was processed. tick(done,
total) is called from time to time with bytes of input. Files are given as descriptors; steve.system.output makes and
names them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os

from cpython.exc cimport PyErr_CheckSignals
from libc.stdlib cimport free, malloc
from libc.string cimport strlen

from steve.trace._memtrace cimport OpsFile, Trace, trace_error
from steve.trace.cmemtrace cimport *
from steve.kernels.ckernels cimport *
from steve.kernels.records cimport data_of, enough
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
    """One walk over the operations of a Trace or an OpsFile."""
    def __cinit__(self, origin, tick=None, bint resizes=False, bint threads=False, bint times=False):
        cdef op_source_options options
        options.resizes, options.threads, options.times = resizes, threads, times
        self.origin, self.tick = origin, tick
        if isinstance(origin, Trace):
            self.trace = origin
            # a Trace of another class chooses what it delivers
            self.given = type(origin) is not Trace
            self.s = op_source_new(NULL if self.given else self.trace.r, NULL, options)
        else:
            self.file = origin
            self.s = op_source_new(NULL, self.file.r, options)
        self.by_batch = self.trace is not None and not (self.given or threads or times)
        if self.s == NULL:
            raise MemoryError

    def __dealloc__(self):
        op_source_free(self.s)

    cdef int enter(self, checkpoint) except -1:
        """Begin where a shard does: see steve.parallel.checkpoints, with handles."""
        known = checkpoint.handles
        return enough(op_source_begin(self.s, <const uint64_t *>data_of(known), len(known), checkpoint.next_handle))

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
        """Write the next operations: q.left of them, after the first q.skip. 0 at the end."""
        cdef int result = MT_MORE
        cdef unsigned i
        if q.left == 0:
            return 0
        if not self.by_batch or form != OPS_BINARY:
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

    cdef int write_unfreed(self, OpsWriter writer) except -1:
        """After a whole trace was written, also write which blocks it does not free."""
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
        if self.trace is not None:
            self.trace.verify_sample()
        self.batches += batches
        if self.tick is not None and self.batches >= TICK:
            self.batches = 0
            self.tick(*self.origin.progress())
        return 0


cdef class TextFile:
    """Text that is written on a descriptor."""
    def __cinit__(self, int fd):
        self.out = <textout *>malloc(sizeof(textout))
        enough(self.out != NULL)
        textout_init(self.out, fd)

    def __dealloc__(self):
        free(self.out)

    cdef int verify(self) except -1:
        """WriteError if anything could not be written."""
        if self.out.error:
            raise WriteError(f"cannot write: {os.strerror(self.out.error)}")
        return 0

    cdef int finish(self) except -1:
        """Write what is buffered."""
        textout_finish(self.out)
        return self.verify()


cdef int ticked(object source, object tick, unsigned *batches) except -1:
    batches[0] += 1
    if tick is not None and batches[0] % TICK == 0:
        tick(*source.progress())
    return 0


cdef class OpsWriter:
    """An ops writer of the trace library on a descriptor; form: one of FORMS; piece: of struct ops_piece."""
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
    """Can the operations of this source be copied to a binary file, instead of being written one by one?"""
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
    return {"ops": total, "unmatched": 0}


def write_ops(origin, int fd, tick=None, *, str form="text", bint resizes=False, bint threads=False,
              bint times=False, bint copy=True):
    """Write the operations as an ops file in a form of FORMS; resizes: a Resize as R, not as F and N;
    threads, times: with the thread and the time of each; copy: in the binary form with accesses as the trace has
    them, where copies() is true.

    Returns {"ops", "unmatched"}: how many, and accesses to no block."""
    if copy and form == "binary" and not (threads or times) and copies(origin):
        return copy_operations(origin, fd, tick, resizes)
    cdef Operations source = Operations(origin, tick, resizes, threads, times)
    cdef OpsWriter writer = OpsWriter(fd, form, False)
    cdef op_quota quota
    quota.skip, quota.left = 0, ALL
    while source.write(writer.w, writer.form, &quota):
        pass
    source.write_unfreed(writer)
    writer.finish()
    return {"ops": ALL - quota.left, "unmatched": op_source_unmatched(source.s)}


cdef size_t keep_heap_ops(op *out, const op *ops, size_t n) noexcept nogil:
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


def copy_ops(OpsFile file, int fd, tick=None, *, str form="text"):
    """Write the operations of an ops or lockops file once more, in a form of FORMS."""
    cdef const op *ops
    cdef size_t n
    cdef unsigned batches = 0
    cdef bint more = file.next(&ops, &n), ok = True
    cdef bint lists = FORMS[form] == OPS_BINARY and file.kind == "ops"
    cdef OpsWriter writer = OpsWriter(fd, form, file.kind == "lockops")
    cdef unfreed left
    enough(unfreed_init(&left))
    try:
        while more:
            with nogil:
                ops_write(writer.w, ops, n)
                ok = not lists or unfreed_feed(&left, ops, n)
            enough(ok)
            ticked(file, tick, &batches)
            more = file.next(&ops, &n)
        if lists:
            enough(unfreed_finish(&left))
            with nogil:
                ops_writer_survivors(writer.w, left.list, left.n)
        writer.finish()
    finally:
        unfreed_free(&left)


cdef void write_handle_list(textout *out, const op *ops, size_t n, bint first) noexcept nogil:
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
    cdef TextFile text = TextFile(fd)
    cdef const op *ops
    cdef size_t n
    cdef uint64_t total = 0
    textout_bytes(text.out, b"[", 1)
    while source.next(&ops, &n):
        with nogil:
            write_handle_list(text.out, ops, n, total == 0)
        total += n
        text.verify()
    textout_bytes(text.out, b"]", 1)
    text.finish()
    return total


def write_classic(Trace trace, int fd, tick=None):
    """Write the events as classic text. Returns counts: lines, bad_frees and others (events left out)."""
    cdef TextFile text = TextFile(fd)
    cdef classic_counts counts
    cdef const mt_event *events
    cdef size_t n
    cdef unsigned batches = 0
    counts.lines = counts.bad_frees = counts.others = 0
    while trace.next(&events, &n):
        with nogil:
            classic_write(text.out, events, n, &counts)
        text.verify()
        ticked(trace, tick, &batches)
    text.finish()
    return counts


cdef void dump_line(void *ctx, const char *text) noexcept nogil:
    textout_bytes(<textout *>ctx, text, strlen(text))
    textout_bytes(<textout *>ctx, b"\n", 1)


def dump(str path, int fd, *, bint salvage=False):
    """Write every record of a trace as text. TraceError at damage, after all before it was written."""
    cdef TextFile text = TextFile(fd)
    cdef bytes name = os.fsencode(path)
    cdef const char *c_name = name
    cdef unsigned flags = MT_OPEN_SALVAGE if salvage else 0
    cdef mt_error err
    cdef int result
    with nogil:
        result = mt_dump(c_name, flags, dump_line, text.out, &err)
    text.finish()
    if result == MT_ERROR:
        raise trace_error(path, "standard input" if path == "-" else path, &err, False)


def write_ops_piece(Trace trace, int fd, checkpoint, uint64_t skip, uint64_t count, *, piece, str form="text",
                    bint resizes=False):
    """Write `count` operations of a shard and of the shards after it, without the first `skip`. Fewer are written where
    the trace ends. Returns the number of accesses to no block.

    checkpoint: of steve.parallel.checkpoints, with handles. piece: (operations in the pieces before, is it the first
    piece, is it the last piece)."""
    cdef Operations source = Operations(trace, None, resizes)
    cdef OpsWriter writer = OpsWriter(fd, form, False, piece)
    cdef op_quota quota
    quota.skip, quota.left = skip, count
    source.enter(checkpoint)
    while source.write(writer.w, writer.form, &quota):
        pass
    if piece[2]:
        source.write_unfreed(writer)
    writer.finish()
    return op_source_unmatched(source.s)
