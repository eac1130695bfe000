# cops.pxd - Cython's view of memtrace/ops.h: readers and writers of ops and lockops files.
#
# SPDX-License-Identifier: GPL-2.0-or-later
from libc.stdint cimport uint32_t, uint64_t

from steve.trace.cmemtrace cimport mt_error, mt_reader


cdef extern from "memtrace/ops.h" nogil:
    enum ops_kind:
        OPS_UNKNOWN, OPS_ACCESS, OPS_LOCK
    enum ops_code:
        OP_NEW, OP_FREE, OP_LOAD, OP_STORE, OP_MODIFY, OP_LOCK, OP_UNLOCK, OP_COMPACT, OP_RESIZE, OP_CODES

    struct op:
        uint64_t handle, addr, size
        uint32_t code, thread
        uint64_t time

    struct ops_reader:
        pass

    ops_reader *ops_open(const char *path, ops_kind hint, mt_error *err)
    ops_kind ops_reader_kind(const ops_reader *r)
    bint ops_reader_is_binary(const ops_reader *r)
    int ops_next(ops_reader *r, const op **ops, size_t *n)
    const mt_error *ops_reader_error(const ops_reader *r)
    void ops_pass_accesses(ops_reader *r)
    bint ops_reader_check(ops_reader *r)
    uint64_t ops_reader_shared(const ops_reader *r)
    uint64_t ops_reader_bytes(const ops_reader *r, uint64_t *total)
    void ops_close(ops_reader *r)
    bint ops_read_survivors(const char *path, uint64_t **ordinals, size_t *n)

    struct ops_writer:
        pass

    enum ops_form:
        OPS_TEXT, OPS_TEXT_ZSTD, OPS_BINARY

    enum: OPS_PIECE
    struct ops_piece:
        uint64_t before
        bint first, last

    mt_reader *ops_reader_trace(ops_reader *r)
    bint ops_reader_resizes(const ops_reader *r)

    struct ops_copier:
        pass

    bint ops_can_copy(const mt_reader *trace)
    ops_copier *ops_copier_new(mt_reader *trace, int fd, bint resizes, mt_error *err)
    int ops_copier_next(ops_copier *c)
    uint64_t ops_copier_operations(const ops_copier *c)
    int ops_copier_finish(ops_copier *c, mt_error *err)

    ops_writer *ops_writer_piece(int fd, ops_form form, ops_kind kind, ops_piece piece, mt_error *err)
    ops_writer *ops_writer_open(int fd, ops_form form, ops_kind kind, mt_error *err)
    void ops_write(ops_writer *w, const op *ops, size_t n)
    void ops_writer_survivors(ops_writer *w, const uint64_t *ordinals, size_t n)
    int ops_writer_finish(ops_writer *w, mt_error *err)
