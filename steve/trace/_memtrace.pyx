# cython: language_level=3, boundscheck=False
"""Python binding of the trace library: read memtraces and ops files.

    trace = Trace("ljtrace.out.1.ljt")
    for batch in trace.batches():        # numpy arrays with the fields of struct mt_event
        news = batch[batch["kind"] == NEW]
    if trace.problem: ...                # the file is truncated or damaged; everything before that was delivered

The kernels (steve.kernels) walk the same batches without Python objects, which is much faster. Ids of strings,
frames, stacks, sites and heaps count from 0; see memtrace/memtrace.h.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
from collections import namedtuple

from cpython.buffer cimport PyBUF_READ
from cpython.exc cimport PyErr_CheckSignals
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uintptr_t
from libc.stdlib cimport free

from steve.trace.cmemtrace cimport *
from steve.trace.cops cimport *

from steve.system.errors import TraceError
from steve.system.samples import Sample
from steve.trace.chunks import shown_chunk, shown_function

cdef extern from "config.h":
    const char *PACKAGE_VERSION

VERSION = PACKAGE_VERSION.decode()
KIND_NAMES = tuple(mt_kind_name(<mt_kind>kind).decode() for kind in range(MT_KINDS))
globals().update({name.upper(): kind for kind, name in enumerate(KIND_NAMES)})  # NEW, FREE ...
# the kinds whose field `ref` is a stack id
STACK_KINDS = frozenset(kind for kind in range(MT_KINDS) if mt_kind_has_stack(<mt_kind>kind))
HEAP_KIND_NAMES = tuple(mt_heap_kind_name(<mt_heap_kind>k).decode() for k in range(MT_HEAP_KINDS))
REACH_NAMES = tuple(mt_reach_name(<mt_reach>r).decode() for r in range(MT_REACHES))
TYPE_NAMES = tuple(mt_type_name(<mt_type>t).decode() for t in range(MT_TYPES))
VM_NAMES = tuple(mt_vm_name(<mt_vm>v).decode() for v in range(MT_VMS))
BADFREE_NAMES = tuple(mt_badfree_name(<mt_badfree>b).decode() for b in range(MT_BADFREES))
# the byte `how` of an event: its low four bits are an mt_how, the others these flags
HOW_MASK, IMPLIED, KERNEL, BEYOND, FREED = 15, 16, 32, 64, 128
CONTAINER, CONTAINER_KEPT = 32, 128  # of News, Frees and Resizes, in the places of KERNEL and FREED
LINK_NAMES = tuple(mt_link_kind_name(<mt_link_kind>k).decode() for k in range(MT_LINK_KINDS))
HOW_NAMES = tuple(mt_how_name(<mt_how>how).decode() for how in range(MT_HOWS))
cdef uint64_t NEVER = 0xffffffffffffffff  # MT_NEVER
OPS_HINTS = {None: OPS_UNKNOWN, "ops": OPS_ACCESS, "lockops": OPS_LOCK}

Frame = namedtuple("Frame", "ip function file object line defined kind approximate trace nth",
                   defaults=(0, "host", False, 0, 0), module=__name__)  # named, so that other processes know it
Proto = namedtuple("Proto", "handle heap function file defined offset lines nth")
JitTrace = namedtuple("JitTrace", "heap number addr size time frame")
Module = namedtuple("Module", "object build_id start size bias mapped unmapped")
Pages = namedtuple("Pages", "time reason name page threads before after highest reserved complete mappings regions")
Mapping = namedtuple("Mapping", "start size rss pss swap huge flags name runs")
Region = namedtuple("Region", "start size stack")
Snapshot = namedtuple("Snapshot", "name heap time total internal event objects links")
Site = namedtuple("Site", "ip frame size kind")
Heap = namedtuple("Heap", "id kind")

_CODES = {MT_E_NONE: "none", MT_E_IO: "io", MT_E_FORMAT: "format", MT_E_VERSION: "version",
          MT_E_CORRUPT: "corrupt", MT_E_TRUNCATED: "truncated", MT_E_MEMORY: "memory", MT_E_GROWING: "growing"}
_dtypes = {}


cdef str path_name(str path):
    """The name of a file in messages."""
    return "standard input" if path == "-" else path


cdef object trace_error(str path, str name, const mt_error *err, bint is_text):
    """Turn an error of the library into a TraceError. The file's name is removed from the text, because the
    TraceError adds it."""
    text = (<char *>err.text).decode("utf-8", "backslashreplace")
    for prefix in (path + ": ", name + ": "):
        text = text[len(prefix):] if text.startswith(prefix) else text
    return TraceError(name, _CODES[err.code], err.offset, is_text, text)


cdef str text_of(const char *s):
    """Decode a string of a trace. Bytes that are not UTF-8 become \\xNN, so that the text can be printed."""
    return s.decode("utf-8", "backslashreplace")


cdef object dtype_of(size_t itemsize, list fields):
    """A numpy dtype of a struct. fields: (name, format, offset) of each."""
    import numpy as np
    names, formats, offsets = zip(*fields)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": itemsize})


def event_dtype():
    """numpy dtype of struct mt_event, 64 bytes. `offset` shares its bytes with `old_addr`; `how` and flags are
    bit-fields in the byte after `kind`."""
    cdef mt_event e
    cdef char *at = <char *>&e
    if "event" not in _dtypes:
        _dtypes["event"] = dtype_of(sizeof(e), [
            ("addr", "u8", <char *>&e.addr - at), ("size", "u8", <char *>&e.size - at),
            ("handle", "u8", <char *>&e.handle - at), ("time", "u8", <char *>&e.time - at),
            ("old_addr", "u8", <char *>&e.old_addr - at), ("offset", "u8", <char *>&e.offset - at),
            ("old_size", "u8", <char *>&e.old_size - at), ("ref", "u4", <char *>&e.ref - at),
            ("thread", "u2", <char *>&e.thread - at), ("kind", "u1", <char *>&e.kind - at),
            ("how", "u1", <char *>&e.kind + 1 - at), ("heap", "u4", <char *>&e.heap - at),
            ("slot", "u4", <char *>&e.slot - at)])
    return _dtypes["event"]


def op_dtype():
    """numpy dtype of struct op, 40 bytes: handle, addr, size, code (enum ops_code), thread, time (0: unknown)."""
    cdef op o
    cdef char *at = <char *>&o
    if "op" not in _dtypes:
        _dtypes["op"] = dtype_of(sizeof(o), [
            ("handle", "u8", <char *>&o.handle - at), ("addr", "u8", <char *>&o.addr - at),
            ("size", "u8", <char *>&o.size - at), ("code", "u4", <char *>&o.code - at),
            ("thread", "u4", <char *>&o.thread - at), ("time", "u8", <char *>&o.time - at)])
    return _dtypes["op"]


def object_dtype():
    """numpy dtype of struct mt_object."""
    cdef mt_object o
    cdef char *at = <char *>&o
    return dtype_of(sizeof(o), [
        ("addr", "u8", <char *>&o.addr - at), ("size", "u8", <char *>&o.size - at), ("name", "u4", <char *>&o.name - at),
        ("type", "u1", <char *>&o.type - at), ("dead", "u1", <char *>&o.dead - at), ("root", "u1", <char *>&o.root - at)])


def link_dtype():
    """numpy dtype of struct mt_link."""
    cdef mt_link l
    cdef char *at = <char *>&l
    return dtype_of(sizeof(l), [
        ("from", "u4", <char *>&l.from_ - at), ("to", "u4", <char *>&l.to - at), ("name", "u4", <char *>&l.name - at),
        ("kind", "u1", <char *>&l.kind - at), ("weak", "u1", <char *>&l.weak - at)])


cdef object array_over(const void *data, size_t n, object dtype, bint copy):
    """n records at `data` as a read-only array that shares the memory, or as a copy."""
    import numpy as np
    if n == 0:
        return np.empty(0, dtype)
    array = np.frombuffer(PyMemoryView_FromMemory(<char *>data, n * dtype.itemsize, PyBUF_READ), dtype)
    return array.copy() if copy else array


cdef class Trace:
    """An open memtrace: binary or classic text, plain or compressed with zstd. path "-" is standard input.

    name: the file's name in messages (default: the path).
    salvage: skip damaged chunks and continue; stats()["damaged_chunks"] counts them.
    text: read the file as classic text even if its first lines do not look like it.
    freed: also deliver accesses to freed memory (flag FREED of `how`).
    snapshots: keep the snapshots of Lua heaps, for snapshot().
    overlaps: in classic text, let live blocks overlap (MT_OPEN_OVERLAPS).
    following: read what the recorder writes from now on, too; see follow().
    growing: of a file that is still being written, the size up to which it is read; None: that which it has now. Then it is
    None for a file that is complete.
    every_block: what needs every block; SteveError when it is read that the trace is a sample. "": nothing does.
    Raises TraceError if the file cannot be opened or is not a memtrace.

    Attribute problem: None, or the TraceError that ended reading early because the file is truncated or damaged;
    everything before that was delivered. If nothing could be delivered, the error is raised instead."""

    def __cinit__(self, str path, str name=None, *, bint salvage=False, bint text=False,
                  bint freed=False, bint snapshots=False, bint overlaps=False, bint following=False,
                  growing=None, str every_block=""):
        cdef mt_error err
        cdef bytes path_bytes = os.fsencode(path)
        cdef const char *c_path = path_bytes
        cdef unsigned flags = (MT_OPEN_SALVAGE if salvage else 0) | (MT_OPEN_TEXT if text else 0)
        flags |= MT_OPEN_FREED if freed else 0
        flags |= MT_OPEN_SNAPSHOTS if snapshots else 0
        flags |= MT_OPEN_OVERLAPS if overlaps else 0
        self.path, self.name, self.every_block = path, name or path_name(path), every_block
        self.problem = None
        with nogil:
            self.r = mt_open(c_path, flags, &err)
        if self.r == NULL:
            raise trace_error(path, self.name, &err, False)
        if mt_growing_size(self.r) and not following:
            self.growing = growing or mt_growing_size(self.r)
            mt_limit_size(self.r, self.growing)

    def __dealloc__(self):
        if self.r != NULL:
            mt_close(self.r)

    def follow(self):
        """Make available what the recorder has written completely; the events end there until the next call. Returns
        True if there is something new, False if not yet, None when all of the file was made available. To be called
        right after the trace was opened with `following`. Raises TraceError if it is not a plain binary file."""
        cdef mt_followed result
        with nogil:
            result = mt_follow(self.r)
        if result == MT_FOLLOW_ERROR and self.problem is None:
            raise trace_error(self.path, self.name, mt_reader_error(self.r), False)
        return None if result in (MT_FOLLOW_ERROR, MT_FOLLOW_END) else result == MT_FOLLOW_MORE

    cdef int next(self, const mt_event **events, size_t *n) except -1:
        """Read the next batch: 1, or 0 at the end (then see `problem`)."""
        cdef int result
        if self.problem is not None:
            return 0
        PyErr_CheckSignals()
        with nogil:
            result = mt_next(self.r, events, n)
        self.verify_sample()
        return self.failed() if result == MT_ERROR else result

    cdef int next_batch(self, mt_batch *batch) except -1:
        """Read the next events in batches of segments, as mt_next_batch() does. Returns as next()."""
        cdef int result
        if self.problem is not None:
            return 0
        PyErr_CheckSignals()
        with nogil:
            result = mt_next_batch(self.r, batch)
        self.verify_sample()
        return self.failed() if result == MT_ERROR else result

    cdef int verify_sample(self) except -1:
        """SteveError if the trace is a sample of the blocks, but every block is needed."""
        if self.every_block and self.sample:
            self.sample.refuse(self.name, self.every_block)
        return 0

    cdef int next_shown(self, const mt_event **events, const mt_event **shown, size_t *n) except -1:
        """As next(), for consumers that also need the events that a filter hides. shown: the same batch with the
        hidden events marked (steve/kernels/base/walk.h), or NULL if all are hidden. Here nothing is hidden;
        subclasses may hide events."""
        cdef int result = self.next(events, n)
        shown[0] = events[0]
        return result

    cdef bint live_block(self, uint32_t slot, mt_live_block_t *block):
        """The block that lives in a slot where a shard begins; false if there is none, or if a subclass hides it. To be
        called before the first event."""
        return mt_get_live_block(self.r, slot, block)

    cdef int failed(self) except -1:
        """Store the reader's error in `problem` and return 0. Raise it instead if nothing was read or if what was
        read cannot be trusted."""
        cdef const mt_error *err = mt_reader_error(self.r)
        cdef mt_reader_stats_t s
        mt_get_stats(self.r, &s)
        error = trace_error(self.path, self.name, err, s.is_text)
        if err.code not in (MT_E_TRUNCATED, MT_E_GROWING) and (err.code != MT_E_CORRUPT or s.events == 0 and not self.midway):
            raise error
        self.problem = error
        return 0

    def pass_accesses(self):
        """Deliver no accesses except those of system calls and to freed memory. Call before anything is read."""
        mt_pass_accesses(self.r)

    def pass_to_last(self, uint32_t n):
        """As pass_accesses(), except in the last n chunks. Call directly after read_range()."""
        mt_pass_to_last(self.r, n)

    def seek_points(self):
        """The places where reading can begin: a list of (events before it, News before it, byte offset), never
        empty."""
        cdef const mt_seek_point *points
        cdef uint32_t n
        if mt_seek_points(self.r, &points, &n) == MT_ERROR:
            raise trace_error(self.path, self.name, mt_reader_error(self.r), False)
        return [(points[i].event, points[i].handle, points[i].offset) for i in range(n)]

    def survivors(self):
        """The ordinals of the blocks that live at the end, ascending, as an array of u8 that the caller owns. None
        if the file has no list of them; see mt_survivors."""
        import numpy as np
        cdef uint64_t *ordinals
        cdef size_t n
        if not mt_survivors(self.r, &ordinals, &n):
            return None
        try:
            return array_over(ordinals, n, np.dtype("u8"), True)
        finally:
            free(ordinals)

    def has_containers(self):
        """Is it known of each block whether another allocator divides it into blocks of its own? See mt_has_containers."""
        return mt_has_containers(self.r)

    def sound_seek_points(self):
        """The number of seek_points() without damage before them; see mt_sound_seek_points."""
        cdef uint32_t n
        with nogil:
            n = mt_sound_seek_points(self.r)
        return n

    def read_range(self, uint32_t first, uint32_t end):
        """Deliver from now on the events from seek point `first` up to seek point `end`, without it."""
        cdef int result
        with nogil:
            result = mt_read_range(self.r, first, end)
        self.midway = first > 0
        if result == MT_ERROR:
            self.failed()

    def probe(self):
        """Raise TraceError if this is not a memtrace. Consumes the first events."""
        cdef const mt_event *events
        cdef size_t n
        self.next(&events, &n)

    def batches(self, *, bint copy=False):
        """Iterate over the events, as arrays of event_dtype() in program order.

        Without `copy` an array is a read-only view of the reader's memory. It is valid until the next array is
        requested, and no longer than the Trace. The low four bits of `how` are an mt_how (HOW_MASK); the flags
        IMPLIED, KERNEL (CONTAINER), BEYOND and FREED (CONTAINER_KEPT) are above them."""
        cdef const mt_event *events
        cdef size_t n
        dtype = event_dtype()
        while self.next(&events, &n):
            yield array_over(events, n, dtype, copy)

    def skim(self, tick=None, snapshot=None):
        """Read to the end without delivering events, to complete stats().

        tick(done, total) is called from time to time with bytes; snapshot(number from 0, name, heap id) is
        called for each snapshot read."""
        cdef mt_batch batch
        cdef unsigned batches = 0
        cdef uint32_t reported = 0
        cdef const mt_snapshot *taken
        cdef bint more = True
        while more:
            more = self.next_batch(&batch)
            while snapshot is not None and reported < mt_count_snapshots(self.r):
                taken = mt_get_snapshot(self.r, reported)
                snapshot(reported, self.string(taken.name), taken.heap)
                reported += 1
            batches += 1
            if tick is not None and batches % 64 == 0:
                tick(*self.progress())

    def stats(self):
        """The reader's counts so far: a dict with the fields of struct mt_reader_stats.

        `ending` is a name. `totals` is a dict; its `events` maps names of event kinds to counts, which are 0 until
        the END chunk has been read."""
        cdef mt_reader_stats_t s
        mt_get_stats(self.r, &s)
        result = dict(s)
        result["ending"] = mt_ending_name(s.ending).decode()
        result["totals"] = dict(s.totals)
        result["totals"]["events"] = {name: s.totals.events[i] for i, name in enumerate(KIND_NAMES)}
        return result

    def info(self):
        """The facts about the recording (command, pid, tool...) as a dict of strings, in file order."""
        cdef const char *key
        cdef const char *value
        cdef uint32_t i = 0
        facts = {}
        while mt_info_at(self.r, i, &key, &value):
            facts[text_of(key)] = text_of(value)
            i += 1
        return facts

    @property
    def sample(self):
        """How the blocks were sampled (steve.system.samples), as far as what was read so far says that this is a sample."""
        return Sample(mt_sample_mean(self.r), mt_sample_every(self.r))

    def damages(self):
        """With salvage: one line for each of the first 100 damaged chunks, with its offset and the damage."""
        cdef const char *text = mt_damage(self.r, 0)
        lines = []
        while text != NULL:
            lines.append(text_of(text))
            text = mt_damage(self.r, len(lines))
        return lines

    def counts(self):
        """The numbers of definitions read so far: a dict by sort (strings, frames, stacks...)."""
        return {"strings": mt_count_strings(self.r), "frames": mt_count_frames(self.r),
                "stacks": mt_count_stacks(self.r), "sites": mt_count_sites(self.r),
                "heaps": mt_count_heaps(self.r), "protos": mt_count_protos(self.r),
                "traces": mt_count_traces(self.r), "modules": mt_count_modules(self.r),
                "pages": mt_count_pages(self.r)}

    def string(self, uint32_t id):
        """The string with an id, "" if there is none. Bytes that are not UTF-8 become \\xNN."""
        return text_of(mt_string(self.r, id))

    def frame(self, uint32_t id):
        """Frame(ip, function, file, object, line, ...) with strings instead of their ids, or None if the id is
        unknown."""
        cdef const mt_frame *f = mt_get_frame(self.r, id)
        if f == NULL:
            return None
        function, file = self.string(f.function), self.string(f.file)
        if f.kind in (MT_FRAME_LUA, MT_FRAME_LUA_INLINED, MT_FRAME_VM):
            function, file = shown_function(function, file), shown_chunk(file)
        return Frame(f.ip, function, file, self.string(f.object), f.line,
                     f.defined, mt_frame_kind_name(<mt_frame_kind>f.kind).decode(), bool(f.approximate),
                     f.trace, f.nth)

    def proto(self, uint32_t id):
        """A Lua prototype: Proto(handle of its block, heap id, function, file, first line, offset of the first
        instruction in the block, list of the instructions' lines, nth), or None. nth numbers the functions that
        begin on the same line."""
        cdef const mt_proto *p = mt_get_proto(self.r, id)
        if p == NULL:
            return None
        function, file = self.string(p.function), self.string(p.file)
        return Proto(p.handle, p.heap, shown_function(function, file), shown_chunk(file), p.defined, p.offset,
                     [p.lines[i] for i in range(p.count)], p.nth)

    def jit_trace(self, uint32_t id):
        """A trace of the JIT compiler: JitTrace(heap id, number, address and size of its code, time, id of the frame
        where it starts), or None."""
        cdef const mt_trace *t = mt_get_trace(self.r, id)
        return None if t == NULL else JitTrace(t.heap, t.number, t.addr, t.size, t.time, t.frame)

    def modules(self):
        """The object files that were mapped, in order: Module(object, build_id, start, size, bias, mapped, unmapped).
        build_id: in hexadecimal, "" if there is none; start, size: of the code in memory; bias: address in memory less
        address in the file; mapped, unmapped: in instructions, unmapped is None if it was mapped to the end."""
        cdef const mt_module *m
        found = []
        for i in range(mt_count_modules(self.r)):
            m = mt_get_module(self.r, i)
            found.append(Module(self.string(m.object), m.build_id[:m.build_id_size].hex(), m.start, m.size, m.bias,
                                m.mapped, None if m.unmapped == NEVER else m.unmapped))
        return found

    def pages(self, uint32_t first=0, uint32_t most=0xffffffff):
        """The pages of the process at each time when they were read, in order, from one with a number from 0 on,
        `most` of them: Pages(time, reason, name of the mark, page, threads, before, after, highest, reserved,
        complete, mappings, regions). page: bytes of one; before, after: bytes
        resident before and after the reading; complete: False if the file lacks some of the mappings. mappings: each
        Mapping(start, size, rss, pss, swap, huge, flags, name, runs), with runs as in the file; regions: what the program
        itself mapped, each Region(start, size, stack id)."""
        cdef const mt_pages *p
        cdef const mt_mapping *m
        cdef const mt_region *r
        found = []
        cdef uint64_t end = min(mt_count_pages(self.r), <uint64_t>first + most)
        for i in range(first, end):
            p = mt_get_pages(self.r, i)
            mappings, regions = [], []
            for j in range(p.first_mapping, p.first_mapping + p.n_mappings):
                m = mt_get_mapping(self.r, j)
                mappings.append(Mapping(m.start, m.size, m.rss, m.pss, m.swap, m.huge, m.flags, self.string(m.name),
                                        (<const char *>m.runs)[:m.runs_size]))
            for j in range(p.first_region, p.first_region + p.n_regions):
                r = mt_get_region(self.r, j)
                regions.append(Region(r.start, r.size, r.stack))
            found.append(Pages(p.time, self.string(p.reason), self.string(p.name), p.page, p.threads, p.before, p.after,
                               p.highest, p.reserved, p.n_mappings == p.mappings and p.n_regions == p.regions,
                               mappings, regions))
        return found

    def snapshot(self, uint32_t number):
        """The snapshot with a number from 0, or None: Snapshot(name, heap id, time, total, internal, events before
        it, objects, links). objects and links are arrays of object_dtype() and link_dtype() that the caller owns."""
        cdef const mt_snapshot *s = mt_get_snapshot(self.r, number)
        if s == NULL:
            return None
        return Snapshot(self.string(s.name), s.heap, s.time, s.total, s.internal, s.event,
                        array_over(s.objects, s.n_objects, object_dtype(), True),
                        array_over(s.links, s.n_links, link_dtype(), True))

    def snapshots(self):
        """All snapshots read so far. Needs Trace(..., snapshots=True)."""
        return [self.snapshot(i) for i in range(mt_count_snapshots(self.r))]

    def forget_snapshot(self, uint32_t number):
        """Free the objects and links of a snapshot, which is empty from now on."""
        mt_forget_snapshot(self.r, number)

    def stack(self, uint32_t id):
        """The innermost frame of a stack and the stack of its callers: (parent stack id, frame id), or None."""
        cdef const mt_stack *s = mt_get_stack(self.r, id)
        return None if s == NULL else (s.parent, s.frame)

    def stack_links(self, uint32_t first, uint32_t end):
        """stack() of the stacks from one id to before another, which are defined: an array of u4 with the stacks of the
        callers, and one with the frames."""
        import numpy as np
        n = max(end, first) - first
        parents, frames = np.empty(n, "u4"), np.empty(n, "u4")
        cdef uint32_t *parent_at = <uint32_t *><uintptr_t>parents.ctypes.data
        cdef uint32_t *frame_at = <uint32_t *><uintptr_t>frames.ctypes.data
        cdef const mt_stack *s
        cdef uint32_t i
        for i in range(<uint32_t>n):
            s = mt_get_stack(self.r, first + i)
            if s == NULL:
                raise IndexError(f"no stack {first + i}")
            parent_at[i], frame_at[i] = s.parent, s.frame
        return parents, frames

    def stack_ids(self, uint32_t id):
        """The ids of the frames of a stack, innermost first; [0] for stack 0 and for an unknown stack."""
        cdef const mt_stack *s = mt_get_stack(self.r, id)
        cdef list ids = []
        while id != 0 and s != NULL:
            ids.append(s.frame)
            id = s.parent if s.parent < id else 0
            s = mt_get_stack(self.r, id)
        return ids or [0]

    def stack_frames(self, uint32_t id):
        """The frames of a stack, innermost first; [] for stack 0."""
        cdef const mt_stack *s = mt_get_stack(self.r, id)
        frames = []
        while id != 0 and s != NULL:
            frames.append(self.frame(s.frame))
            if s.parent >= id:
                break
            id = s.parent
            s = mt_get_stack(self.r, id)
        return frames

    def site(self, uint32_t id):
        """Site(ip, frame id, size, kind name), or None."""
        cdef const mt_site *s = mt_get_site(self.r, id)
        return None if s == NULL else Site(s.ip, s.frame, s.size, KIND_NAMES[s.kind])

    def site_key(self, uint32_t id):
        """A tuple of numbers that is equal for two sites if their frames are equal except for the address. None if
        the site has no frame."""
        cdef const mt_site *s = mt_get_site(self.r, id)
        cdef const mt_frame *f = mt_get_frame(self.r, s.frame) if s != NULL and s.frame != 0 else NULL
        return None if f == NULL else (f.function, f.file, f.object, f.line, f.kind)

    def heap(self, uint32_t id):
        """Heap(id of the allocator's state, kind name), or None."""
        cdef const mt_heap *h = mt_get_heap(self.r, id)
        return None if h == NULL else Heap(h.id, mt_heap_kind_name(<mt_heap_kind>h.kind).decode())

    def progress(self):
        """(bytes read, total bytes or 0 if unknown) of the file as stored, compressed."""
        cdef mt_reader_stats_t s
        mt_get_stats(self.r, &s)
        return s.bytes_read, s.bytes_total


cdef class OpsFile:
    """An open ops or lockops file, text or binary, plain or compressed with zstd. path "-" is standard input.

    name: the file's name in messages (default: the path). kind: "ops" or "lockops", which determines whether L is
    a Load or a Lock; None: find out from the file. accesses: without them, those of a binary file are left out, which is
    faster; addresses may then be 0. Raises TraceError if the file cannot be opened.

    Attribute problem: as in Trace; its place is a line number if the file is text."""

    def __cinit__(self, str path, str name=None, *, kind=None, bint accesses=True):
        cdef mt_error err
        cdef bytes path_bytes = os.fsencode(path)
        cdef const char *c_path = path_bytes
        cdef ops_kind hint = OPS_HINTS[kind]
        self.path, self.name = path, name or path_name(path)
        self.problem = None
        with nogil:
            self.r = ops_open(c_path, hint, &err)
        if self.r == NULL:
            raise trace_error(path, self.name, &err, False)
        if not accesses:
            ops_pass_accesses(self.r)
        if not ops_reader_check(self.r):
            raise MemoryError

    def __dealloc__(self):
        if self.r != NULL:
            ops_close(self.r)

    @property
    def shared_addresses(self):
        """The number of N and R read so far that made a block at the address of a live block. Files written with
        `steve ops --compat` contain such operations."""
        return ops_reader_shared(self.r)

    @property
    def kind(self):
        """ "ops" or "lockops", or None while unknown."""
        return {OPS_ACCESS: "ops", OPS_LOCK: "lockops"}.get(ops_reader_kind(self.r))

    @property
    def binary(self):
        """Is this the binary form?"""
        return bool(ops_reader_is_binary(self.r))

    def probe(self):
        """Raise TraceError if this is not an ops file. Consumes the first operations."""
        cdef const op *ops
        cdef size_t n
        self.next(&ops, &n)

    cdef int next(self, const op **ops, size_t *n) except -1:
        """Read the next operations: 1, or 0 at the end (then see `problem`)."""
        cdef int result
        if self.problem is not None:
            return 0
        PyErr_CheckSignals()
        with nogil:
            result = ops_next(self.r, ops, n)
        self.delivered = self.delivered or result == MT_MORE
        return self.failed() if result == MT_ERROR else result

    cdef int next_batch(self, mt_batch *batch) except -1:
        """Read the next operations in batches of segments, of a file that contains a trace (ops_reader_trace). See
        mt_next_batch; returns as next()."""
        cdef int result
        if self.problem is not None:
            return 0
        PyErr_CheckSignals()
        with nogil:
            result = mt_next_batch(ops_reader_trace(self.r), batch)
        self.delivered = self.delivered or result == MT_MORE
        return self.failed() if result == MT_ERROR else result

    cdef int failed(self) except -1:
        """As Trace.failed()."""
        cdef const mt_error *err = ops_reader_error(self.r)
        error = trace_error(self.path, self.name, err, not self.binary)
        if not self.delivered or err.code not in (MT_E_TRUNCATED, MT_E_CORRUPT):
            raise error
        self.problem = error
        return 0

    def batches(self, *, bint copy=False):
        """Iterate over the operations, as arrays of op_dtype(). They are valid as long as those of
        Trace.batches()."""
        cdef const op *ops
        cdef size_t n
        dtype = op_dtype()
        while self.next(&ops, &n):
            yield array_over(ops, n, dtype, copy)

    def progress(self):
        """(bytes read, total bytes or 0 if unknown) of the file as stored, compressed."""
        cdef uint64_t total = 0
        cdef uint64_t done = ops_reader_bytes(self.r, &total)
        return done, total
