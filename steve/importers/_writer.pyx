# cython: language_level=3
"""The writer of the trace library, for importers; and a decompressor of zstd.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from steve.kernels.records cimport enough
from steve.trace._memtrace cimport Trace
from steve.trace.cmemtrace cimport *

from steve.system.errors import SteveError

cdef extern from "memtrace/memtrace.h" nogil:
    enum: MT_FRAME_INLINED, MT_ENDING_EXIT, MT_HEAP_MALLOC
    enum: MT_HOW_MALLOC, MT_HOW_CALLOC, MT_HOW_REALLOC, MT_HOW_MEMALIGN, MT_HOW_CXX_NEW, MT_HOW_CXX_NEW_ARRAY
    struct mt_writer:
        pass
    struct mt_writer_options:
        bint attached
    mt_writer *mt_writer_new(int fd, const mt_writer_options *options, mt_error *err)
    uint64_t mt_writer_older(const mt_writer *w)
    void mt_writer_info(mt_writer *w, const char *key, const char *value)
    uint32_t mt_writer_string(mt_writer *w, const char *s, size_t n)
    uint32_t mt_writer_frame(mt_writer *w, const mt_frame *f)
    uint32_t mt_writer_stack(mt_writer *w, uint32_t parent, uint32_t frame)
    uint32_t mt_writer_site(mt_writer *w, const mt_site *s)
    void mt_writer_module(mt_writer *w, const mt_module *m)
    void mt_writer_thread(mt_writer *w, uint16_t thread)
    void mt_writer_time(mt_writer *w, uint64_t time)
    void mt_writer_clock(mt_writer *w, uint64_t nanoseconds)
    void mt_writer_block_new(mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, int how, uint32_t stack)
    void mt_writer_block_free(mt_writer *w, uint64_t addr, uint32_t heap, uint32_t stack)
    void mt_writer_block_resize(mt_writer *w, uint64_t old, uint64_t addr, uint64_t size, uint32_t heap, int how,
                                uint32_t stack)
    void mt_writer_accesses(mt_writer *w, const uint32_t *sites, const uint64_t *addrs, size_t n)
    int mt_writer_finish(mt_writer *w, int ending, mt_error *err)
    const mt_error *mt_writer_error(const mt_writer *w)

cdef extern from "zstd.h" nogil:
    struct ZSTD_DCtx_s:
        pass
    ctypedef struct ZSTD_inBuffer:
        const void *src
        size_t size, pos
    ctypedef struct ZSTD_outBuffer:
        void *dst
        size_t size, pos
    ZSTD_DCtx_s *ZSTD_createDCtx()
    size_t ZSTD_freeDCtx(ZSTD_DCtx_s *d)
    size_t ZSTD_decompressStream(ZSTD_DCtx_s *d, ZSTD_outBuffer *out, ZSTD_inBuffer *input)
    unsigned ZSTD_isError(size_t code)

HOWS = {"malloc": MT_HOW_MALLOC, "calloc": MT_HOW_CALLOC, "realloc": MT_HOW_REALLOC, "memalign": MT_HOW_MEMALIGN,
        "new": MT_HOW_CXX_NEW, "new[]": MT_HOW_CXX_NEW_ARRAY}


cdef class TraceWriter:
    """Writes a memtrace to a descriptor. Its only heap is the C heap; addresses are those of the blocks.

    midway: the recording began when the program already had blocks, whose frees are counted and are no events."""
    cdef mt_writer *w
    cdef dict sites  # by kind and size

    def __cinit__(self, int fd, bint midway=False):
        cdef mt_error err
        cdef mt_writer_options options
        memset(&options, 0, sizeof(options))
        options.attached = midway
        self.w = mt_writer_new(fd, &options, &err)
        if self.w == NULL:
            raise SteveError((<char *>err.text).decode("utf-8", "replace"))
        self.sites = {}
        mt_writer_thread(self.w, 1)
        mt_writer_clock(self.w, 0)

    def __dealloc__(self):
        if self.w != NULL:
            mt_writer_finish(self.w, 0, NULL)

    def fact(self, str key, str value):
        """A fact about the recording."""
        mt_writer_info(self.w, key.encode("utf-8", "surrogateescape"), value.encode("utf-8", "surrogateescape"))

    cdef uint32_t string(self, str text):
        cdef bytes data = text.encode("utf-8", "surrogateescape")
        return mt_writer_string(self.w, data, len(data))

    def frame(self, uint64_t ip, str function="", str file="", uint32_t line=0, str object="", bint inlined=False):
        """Define a frame. Returns its id."""
        cdef mt_frame f
        memset(&f, 0, sizeof(f))
        f.ip, f.line = ip, line
        f.function, f.file, f.object = self.string(function), self.string(file), self.string(object)
        f.kind = MT_FRAME_INLINED if inlined else 0
        return mt_writer_frame(self.w, &f)

    def module(self, str path, uint64_t start, uint64_t size, uint64_t bias, bytes build_id):
        """An object file that is mapped now: its code in memory, and the difference of addresses in memory and file."""
        cdef mt_module m
        memset(&m, 0, sizeof(m))
        m.start, m.size, m.bias, m.object = start, size, bias, self.string(path)
        m.build_id_size = <uint8_t>min(len(build_id), sizeof(m.build_id))
        for i in range(m.build_id_size):
            m.build_id[i] = build_id[i]
        mt_writer_module(self.w, &m)

    def stack(self, uint32_t callers, uint32_t frame):
        """The id of the stack of a frame and its callers; 0: none."""
        return mt_writer_stack(self.w, callers, frame)

    def time(self, uint64_t time, uint64_t nanoseconds=0):
        """The time of the events that follow, and the same on the clock."""
        mt_writer_time(self.w, time)
        mt_writer_clock(self.w, nanoseconds)

    def new(self, uint64_t addr, uint64_t size, uint32_t stack=0, int how=MT_HOW_MALLOC):
        mt_writer_block_new(self.w, addr, size, 0, how, stack)

    def free(self, uint64_t addr, uint32_t stack=0):
        mt_writer_block_free(self.w, addr, 0, stack)

    def resize(self, uint64_t old, uint64_t addr, uint64_t size, uint32_t stack=0):
        mt_writer_block_resize(self.w, old, addr, size, 0, MT_HOW_REALLOC, stack)

    def copy(self, Trace source, tick=None):
        """Write the events of a classic text, with the number of each as its time. Returns their number."""
        cdef const mt_event *events
        cdef const mt_event *e
        cdef size_t n, i
        cdef uint64_t count = 0
        cdef uint32_t site
        while source.next(&events, &n):
            for i in range(n):
                e = &events[i]
                count += 1
                mt_writer_time(self.w, count)
                if e.kind == MT_NEW:
                    mt_writer_block_new(self.w, e.addr, e.size, 0, MT_HOW_MALLOC, 0)
                elif e.kind == MT_FREE:
                    mt_writer_block_free(self.w, e.addr, 0, 0)
                elif e.kind <= MT_MODIFY:
                    site = self.site_of(e.kind, e.size)
                    mt_writer_accesses(self.w, &site, &e.addr, 1)
            if tick is not None:
                tick(*source.progress())
            self.check()
        return count

    cdef uint32_t site_of(self, uint8_t kind, uint64_t size) except? 0:
        """The site of all accesses of a kind and size."""
        cdef mt_site s
        if (kind, size) not in self.sites:
            memset(&s, 0, sizeof(s))
            s.kind, s.size = kind, <uint32_t>min(size, <uint64_t>0xffffffff)
            self.sites[kind, size] = mt_writer_site(self.w, &s)
        return self.sites[kind, size]

    def check(self):
        """SteveError if the file could not be written."""
        cdef const mt_error *err = mt_writer_error(self.w)
        if err.code != MT_E_NONE:
            raise SteveError((<char *>err.text).decode("utf-8", "replace"))

    def finish(self, bint complete=True):
        """End the trace. complete: the recording had all that happened up to the end of the program."""
        cdef mt_error err
        cdef mt_writer *w = self.w
        if mt_writer_older(w):
            self.fact("older_frees", str(mt_writer_older(w)))
        self.w = NULL
        if mt_writer_finish(w, MT_ENDING_EXIT if complete else 0, &err) == MT_ERROR:
            raise SteveError((<char *>err.text).decode("utf-8", "replace"))


cdef class Zstd:
    """Decompresses a stream of zstd frames."""
    cdef ZSTD_DCtx_s *d
    cdef readonly bint ended  # a frame has ended, and no other one has begun

    def __cinit__(self):
        self.d = ZSTD_createDCtx()
        enough(self.d != NULL)
        self.ended = True

    def __dealloc__(self):
        ZSTD_freeDCtx(self.d)

    def decompress(self, bytes data):
        """What the next compressed bytes stand for. ValueError if they are damaged."""
        cdef ZSTD_inBuffer given
        cdef ZSTD_outBuffer made
        cdef uint8_t room[1 << 16]
        cdef size_t left
        given.src, given.size, given.pos = <const char *>data, len(data), 0
        parts = []
        while True:
            made.dst, made.size, made.pos = room, sizeof(room), 0
            left = ZSTD_decompressStream(self.d, &made, &given)
            if ZSTD_isError(left):
                raise ValueError("zstd")
            self.ended = left == 0
            parts.append((<char *>room)[:made.pos])
            if given.pos == given.size and made.pos < made.size:
                return b"".join(parts)
