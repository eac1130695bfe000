# cython: language_level=3, boundscheck=False
"""The encoding of LuaJIT's profilers: a bounds-checked cursor, a write buffer, and the sums of memprof.

    cursor = Cursor(mapping, "prof.bin")
    cursor.magic(b"ljm"); cursor.uleb(); cursor.text()     # StreamError names the offset
    out = Packer(fd); out.byte(0x80); out.uleb(1 << 40); out.flush()

Numbers are encoded as ULEB128: seven bits in each byte, low bits first; the top bit is set if another byte follows.
A number has at most 10 bytes, and the tenth is at most 1. The line -1 of a builtin is 2^64 - 1. Offsets count from the
start of the file. This module has only what must be fast; steve.profilers.memprof and steve.profilers.sysprof
document the formats.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from steve.trace._memtrace cimport Trace
from steve.trace.cmemtrace cimport *

from steve.system.errors import SteveError, WriteError


class StreamError(SteveError):
    """The bytes at `offset` violate the format."""

    def __init__(self, name, offset, text):
        super().__init__(f"{name}: offset {offset}: {text}")
        self.offset = offset


cdef class Cursor:
    """A reading position in a sequence of bytes, which only moves forward.

    data: bytes, or a mapping of a file. name: the file's name in messages. All reading methods raise StreamError."""
    cdef const uint8_t[::1] data
    cdef readonly Py_ssize_t at
    cdef readonly Py_ssize_t size
    cdef readonly str name

    def __cinit__(self, data, str name):
        self.name, self.at = name, 0
        self.size = len(data)
        if self.size:
            self.data = data

    def error(self, str text, offset=None):
        """A StreamError for the current position, or for `offset`."""
        return StreamError(self.name, self.at if offset is None else offset, text)

    cpdef int peek(self, Py_ssize_t ahead=0) except -2:
        """The byte at a distance of `ahead` from the position, -1 after the end of the data."""
        return self.data[self.at + ahead] if 0 <= self.at + ahead < self.size else -1

    cpdef int byte(self) except -1:
        """The next byte."""
        if self.at >= self.size:
            raise self.error("the file ends here, in the middle of the stream; it was cut off")
        self.at += 1
        return self.data[self.at - 1]

    cpdef uint64_t uleb(self) except? 0xDEADBEEF:
        """The next number."""
        cdef uint64_t value = 0
        cdef int shift = 0, b
        cdef Py_ssize_t start = self.at
        while True:
            b = self.byte()
            if shift == 63 and b > 1:
                raise self.error("a number over 64 bits", start)
            value |= <uint64_t>(b & 0x7f) << shift
            if b < 0x80:
                return value
            shift += 7

    cpdef bytes raw(self, uint64_t length):
        """The next `length` bytes."""
        if length > <uint64_t>(self.size - self.at):
            raise self.error(f"{length} bytes are announced, but only {self.size - self.at} are left; "
                             "the file is cut off or damaged")
        self.at += <Py_ssize_t>length
        return bytes(self.data[self.at - <Py_ssize_t>length:self.at]) if length else b""

    cpdef str text(self):
        """The next string, which is preceded by its length. Bytes that are not UTF-8 become \\xNN."""
        return self.raw(self.uleb()).decode("utf-8", "backslashreplace")

    def prologue(self, bytes magic, known):
        """Read the three bytes `magic`, a version and three reserved bytes; return the version. StreamError if it is
        not in `known`."""
        cdef Py_ssize_t start = self.at
        found = bytes(self.data[start:min(start + 3, self.size)]) if self.size > start else b""
        if found != magic:
            raise self.error(f"expected '{magic.decode()}', not {found!r}; this is not a file of that kind")
        self.at += 3
        version = self.byte()
        if version not in known:
            raise self.error(f"version {version} of '{magic.decode()}'; known: "
                             + ", ".join(map(str, known)), start + 3)
        self.raw(3)
        return version


cdef class Packer:
    """A write buffer for a file descriptor, which the caller owns."""
    cdef bytearray buffer
    cdef int fd

    def __cinit__(self, int fd):
        self.fd, self.buffer = fd, bytearray()

    cpdef int byte(self, int value) except -1:
        self.buffer.append(value)
        return 0

    cpdef int uleb(self, uint64_t value) except -1:
        while value >= 0x80:
            self.buffer.append(<int>(value & 0x7f) | 0x80)
            value >>= 7
        self.buffer.append(<int>value)
        return 0

    cpdef int raw(self, bytes data) except -1:
        self.buffer += data
        return 0

    cpdef int text(self, str text) except -1:
        data = text.encode("utf-8", "surrogateescape")
        self.uleb(len(data))
        self.buffer += data
        return 0

    cpdef bytes take(self):
        """Empty the buffer and return its content instead of writing it."""
        taken, self.buffer = bytes(self.buffer), bytearray()
        return taken

    cpdef int flush(self, Py_ssize_t least=0) except -1:
        """Write the buffer if it has more than `least` bytes. Raises WriteError."""
        if len(self.buffer) <= least:
            return 0
        view, self.buffer = memoryview(self.buffer), bytearray()
        try:
            while view:
                view = view[os.write(self.fd, view):]
        except OSError as error:
            raise WriteError(error.strerror) from None
        return 0


cdef enum:
    ALLOC = 1
    FREED = 2
    REALLOC = 3


cdef class Row:
    """The sums of one location over events of one kind.

    num: number of events. alloc, free: bytes allocated and freed. overrides: how often it resized or freed blocks of
    each location (location -> count)."""
    cdef public uint64_t num, alloc, free
    cdef public dict overrides

    def __cinit__(self):
        self.overrides = {}


cdef class Heap:
    """The live blocks, and sums of events by kind and location. Locations are any hashable objects of the caller.

    rows[kind]: location -> Row, for kinds 1 (alloc), 2 (free) and 3 (realloc). held: location -> [bytes, allocations,
    frees] of the blocks that belong to it; a block belongs to the location that allocated it or resized it last.
    Blocks from before the profile are not counted. Memory: an entry for each live block and each location."""
    cdef dict live  # address -> (size, location)
    cdef readonly dict held
    cdef readonly list rows

    def __cinit__(self):
        self.live, self.held, self.rows = {}, {}, [None, {}, {}, {}]

    @property
    def blocks(self):
        """The number of live blocks."""
        return len(self.live)

    cdef Row row(self, int kind, object location):
        cdef dict rows = self.rows[kind]
        found = rows.get(location)
        if found is None:
            found = rows[location] = Row()
        return <Row>found

    cdef list holder(self, object location):
        found = self.held.get(location)
        if found is None:
            found = self.held[location] = [0, 0, 0]
        return <list>found

    cdef int take(self, object location, uint64_t addr, uint64_t size) except -1:
        """Add a block. A block that is still recorded at its address is removed: its free was not reported."""
        cdef list held
        lost = self.live.get(addr)
        if lost is not None:
            held = self.holder(lost[1])
            held[0] = held[0] - lost[0]
        held = self.holder(location)
        self.live[addr] = (size, location)
        held[0] = held[0] + size
        held[1] = held[1] + 1
        return 0

    cdef int give(self, Row row, uint64_t addr) except -1:
        known = self.live.pop(addr, None)
        if known is None:
            return 0
        size, origin = known
        held = self.holder(origin)
        held[0] = held[0] - size
        held[2] = held[2] + 1
        row.overrides[origin] = row.overrides.get(origin, 0) + 1
        return 0

    cpdef int alloc(self, object location, uint64_t addr, uint64_t size) except -1:
        cdef Row row = self.row(ALLOC, location)
        row.num += 1
        row.alloc += size
        return self.take(location, addr, size)

    cpdef int free(self, object location, uint64_t addr, uint64_t size) except -1:
        cdef Row row = self.row(FREED, location)
        row.num += 1
        row.free += size
        return self.give(row, addr)

    cpdef int realloc(self, object location, uint64_t old, uint64_t old_size, uint64_t addr,
                      uint64_t size) except -1:
        cdef Row row = self.row(REALLOC, location)
        row.num += 1
        row.free += old_size
        row.alloc += size
        self.give(row, old)
        return self.take(location, addr, size)


def samples(Trace trace, tick=None):
    """Read a trace to its end and sum its samples: {(stack id, heap id, enum mt_vm): weight}. tick(done, total):
    progress in bytes."""
    cdef const mt_event *events
    cdef const mt_event *e
    cdef size_t n, i
    cdef unsigned batches = 0
    cdef dict found = {}
    while trace.next(&events, &n):
        for i in range(n):
            e = &events[i]
            if e.kind == MT_SAMPLE:
                key = (e.ref, e.heap, e.how & 15)
                found[key] = found.get(key, 0) + e.size
        batches += 1
        if tick is not None and batches % 64 == 0:
            tick(*trace.progress())
    return found


def heap_events(Trace trace, chosen, tick=None):
    """Yield the News, Frees and Resizes of selected heaps, a list for each batch of the reader. The elements are tuples
    (kind, stack, old address, old size, address, size, nanoseconds, instructions).

    kind: 1 alloc, 2 free, 3 realloc. chosen(heap id) is called once for each heap; is it selected? nanoseconds: wall
    clock time at the start of the current chunk. A Free counts for the heap of its block."""
    cdef const mt_event *events
    cdef const mt_event *e
    cdef size_t n, i
    cdef dict known = {}
    cdef list found
    cdef mt_reader_stats_t stats
    cdef unsigned batches = 0
    while trace.next(&events, &n):
        found = []
        mt_get_stats(trace.r, &stats)
        nanoseconds = stats.nanoseconds
        for i in range(n):
            e = &events[i]
            if e.kind > MT_RESIZE:
                continue
            wanted = known.get(e.heap)
            if wanted is None:
                wanted = known[e.heap] = bool(chosen(e.heap))
            if not wanted:
                continue
            if e.kind == MT_NEW:
                found.append((ALLOC, e.ref, 0, 0, e.addr, e.size, nanoseconds, e.time))
            elif e.kind == MT_FREE:
                found.append((FREED, e.ref, e.addr, e.size, 0, 0, nanoseconds, e.time))
            else:
                found.append((REALLOC, e.ref, e.old_addr, e.old_size, e.addr, e.size, nanoseconds, e.time))
        batches += 1
        if tick is not None and batches % 64 == 0:
            tick(*trace.progress())
        if found:
            yield found


cdef enum:
    SYMTAB = 0
    INTERNAL = 1
    LFUNC = 2
    CFUNC = 3
    TRACE = 4
    EPILOGUE = 0x80
    SECOND = 0x40  # version 1: the event is about a second later than the last event with this bit
    LAST_3 = 19    # the largest event header of version 3


cdef object place_key(Cursor c, int source):
    if source == INTERNAL:
        return (INTERNAL, 0, 0)
    if source == LFUNC:
        addr = c.uleb()
        return (LFUNC, addr, c.uleb())
    return (source, c.uleb(), 0)


def memprof_events(Cursor c, int version, Heap heap, place_of, symbol, second):
    """Read the events of an ljm stream, including its epilogue, and deliver them to `heap`.

    place_of(key) returns the location of (source, address or trace number, line). symbol(source) reads the symbol at
    the cursor; after that, place_of() is called again for all keys. second() is called for each time mark (version 1).
    Raises StreamError."""
    cdef int header, kind, source, last = LAST_3 if version >= 3 else 0x7f
    cdef uint64_t old, old_size, addr
    cdef dict places = {}
    cdef Py_ssize_t start
    while True:
        start = c.at
        header = c.byte()
        if header & EPILOGUE and (version < 3 or header == EPILOGUE):
            return
        kind, source = header & 3, header >> 2 & (7 if version >= 3 else 3)
        if header > last or source == 0 or source > TRACE or (kind == SYMTAB and (version < 3 or source == 1)):
            raise c.error(f"an event with the header {header:#04x}; the file is damaged", start)
        if kind == SYMTAB:
            symbol(source)
            places.clear()
            continue
        if version < 3 and header & SECOND:
            second()
        key = place_key(c, source)
        place = places.get(key)
        if place is None:
            place = places[key] = place_of(key)
        addr = c.uleb()
        old_size = c.uleb()
        if kind == ALLOC:
            heap.alloc(place, addr, old_size)
        elif kind == FREED:
            heap.free(place, addr, old_size)
        else:
            old, addr = addr, c.uleb()
            heap.realloc(place, old, old_size, addr, c.uleb())
