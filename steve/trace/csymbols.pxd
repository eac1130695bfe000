# csymbols.pxd - the part of ljtrace/symbols and memtrace/rewrite.h that steve.trace._symbols uses.
#
# SPDX-License-Identifier: GPL-2.0-or-later
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from steve.trace.cmemtrace cimport mt_error, mt_frame, mt_reader


cdef extern from "ljtrace/symbols/debuginfo.h":
    struct debuginfo
    struct debuginfo_object
    struct debuginfo_frame:
        const char *function
        const char *file
        uint32_t line
    debuginfo *debuginfo_new()
    void debuginfo_free(debuginfo *d)
    debuginfo_object *debuginfo_add(debuginfo *d, const char *path, int fd)
    size_t debuginfo_find(debuginfo *d, debuginfo_object *object, uint64_t address, const debuginfo_frame **frames)
    const char *debuginfo_function(debuginfo *d, debuginfo_object *object, uint64_t address)
    void debuginfo_problems(const debuginfo *d, void (*report)(void *ctx, const char *object, const char *why), void *ctx)


cdef extern from "ljtrace/symbols/build_id.h":
    enum:
        BUILD_ID_MOST
    size_t build_id_read(const char *path, uint8_t *id)


cdef extern from "memtrace/rewrite.h":
    enum:
        MT_NAMES_MOST
    struct mt_name:
        const char *function
        const char *file
        uint32_t line
    struct mt_namer:
        size_t (*find)(void *context, const mt_reader *r, const mt_frame *frame, mt_name *names)
        void *context
    int mt_rewrite_names(mt_reader *r, int fd, const mt_namer *namer, mt_error *err)
