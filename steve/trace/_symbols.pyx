# cython: language_level=3
"""Names of code addresses from the debug information of object files, and traces that are copied with them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from steve.system.errors import SteveError
from steve.trace._memtrace cimport Trace
from steve.trace.cmemtrace cimport (MT_E_NONE, MT_ERROR, mt_error, mt_frame, mt_get_module, mt_module, mt_reader,
                                    mt_reader_error, mt_string)
from steve.trace.csymbols cimport *


def build_id_of(str path):
    """The build id of an object file, in hexadecimal; "" if it has none or cannot be read."""
    cdef uint8_t id[BUILD_ID_MOST]
    cdef bytes name = os.fsencode(path)
    cdef size_t size = build_id_read(name, id)
    return id[:size].hex()


cdef void note_problem(void *context, const char *object, const char *why) noexcept:
    (<dict>context)[os.fsdecode(object)] = why.decode(errors="replace")


cdef class Symbols:
    """The names of the code addresses of a trace's modules. files: for each module, in the order of Trace.modules(),
    the file with its debug information, or None.

    frames, named: for each module the numbers of its code addresses in the trace that were met, and of those that got
    names."""
    cdef debuginfo *info
    cdef debuginfo_object **objects  # by module; NULL: there is no file
    cdef uint64_t *met
    cdef uint64_t *found
    cdef uint32_t count

    def __cinit__(self, list files):
        self.count = len(files)
        self.info = debuginfo_new()
        self.objects = <debuginfo_object **>calloc(self.count + 1, sizeof(debuginfo_object *))
        self.met = <uint64_t *>calloc(self.count + 1, sizeof(uint64_t))
        self.found = <uint64_t *>calloc(self.count + 1, sizeof(uint64_t))
        if self.info == NULL or self.objects == NULL or self.met == NULL or self.found == NULL:
            raise MemoryError
        for i, path in enumerate(files):
            if path is not None:
                self.objects[i] = self.open(path)

    def __dealloc__(self):
        free(self.objects)
        free(self.met)
        free(self.found)
        if self.info != NULL:
            debuginfo_free(self.info)

    cdef debuginfo_object *open(self, str path) except? NULL:
        try:
            fd = os.open(path, os.O_RDONLY)
        except OSError:  # removed meanwhile
            return NULL
        return debuginfo_add(self.info, os.fsencode(path), fd)

    @property
    def frames(self):
        return [self.met[i] for i in range(self.count)]

    @property
    def named(self):
        return [self.found[i] for i in range(self.count)]

    def problems(self):
        """Files whose debug information could not be read: a dict from path to reason."""
        cdef dict reasons = {}
        debuginfo_problems(self.info, note_problem, <void *>reasons)
        return reasons

    def rewrite(self, Trace trace, int fd):
        """Copy a trace that nothing was read of to a file descriptor, with these names. Damage ends the copy; it is in
        trace.problem. SteveError if the copy cannot be written."""
        cdef mt_error err
        cdef mt_namer namer
        namer.find = find_names
        namer.context = <void *>self
        if mt_rewrite_names(trace.r, fd, &namer, &err) != MT_ERROR:
            return
        if mt_reader_error(trace.r).code != MT_E_NONE:
            trace.failed()
        else:
            raise SteveError((<bytes>err.text).decode(errors="replace"))

    cdef size_t find(self, const mt_reader *r, const mt_frame *frame, mt_name *names):
        """As the function of struct mt_namer."""
        cdef uint32_t module = frame.module - 1
        cdef const debuginfo_frame *known = NULL
        cdef size_t n, i
        if frame.module == 0 or module >= self.count:
            return 0
        self.met[module] += 1
        if self.objects[module] == NULL:
            return 0
        address = frame.ip - mt_get_module(r, module).bias
        n = debuginfo_find(self.info, self.objects[module], address, &known)
        function = debuginfo_function(self.info, self.objects[module], address)
        if n == 0 and (function == NULL or frame.line):
            return 0  # what was recorded says more
        self.found[module] += 1
        if n == 0:
            names[0].function, names[0].file, names[0].line = function, NULL, 0
            return 1
        if n > MT_NAMES_MOST:
            n = MT_NAMES_MOST
        for i in range(n):
            names[i].function = known[i].function
            names[i].file = known[i].file if known[i].line else NULL
            names[i].line = known[i].line
        names[n - 1].function = function if function != NULL else mt_string(r, frame.function)
        return n


cdef size_t find_names(void *context, const mt_reader *r, const mt_frame *frame, mt_name *names) noexcept:
    return (<Symbols>context).find(r, frame, names)
