/* trace_copy.h - ops files that contain a trace reduced to its operations. Its accesses are copied without decoding.
 *
 *     file = header chunk*       chunks as in memtraces (memtrace/format/chunk.h), of version OPS_CHUNKS
 *
 * To translate a trace into operations, each access has to be decoded, its block found, and the operation encoded.
 * This form avoids that: the compressed streams of accesses are copied as they are. News, Frees, Resizes and accesses
 * by system calls are encoded again, without what operations do not have (stacks, heaps, times). All other events are
 * omitted. Of the definitions, sites (without their frames) and segments remain. A reader of the file decodes what a
 * reader of the trace decodes, and is as fast. The specification is docs/ops-format.md.
 *
 * This header is for files of the library; programs use ops.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_OPS_TRACE_COPY_H
#define MEMTRACE_OPS_TRACE_COPY_H

#include "memtrace/ops.h"

/* Fields of the header, which is as long as that of a trace: the version of the chunks, and how to read a Resize. */
enum { OPS_CHUNKS = 1 };
enum { OPS_COPY_RESIZES = 1 }; /* as R; otherwise as F and N */
#define OPS_COPY_HEADER 16

/* Check a header. Returns a description of the error, or NULL, and then *resizes is set. */
const char *ops_copy_header_unpack(const uint8_t in[OPS_COPY_HEADER], bool *resizes);

#endif
