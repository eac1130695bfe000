/* trace_copy.h - ops files that hold a trace reduced to its operations, whose accesses are copied unread.
 *
 *     file = header chunk*       chunks as in memtraces (memtrace/format/chunk.h), of version OPS_CHUNKS
 *
 * To make operations of a trace each access has to be decoded, found and coded again; this form leaves that
 * out: the compressed streams that tell of accesses are copied as they are. News, Frees, Resizes and system
 * calls' accesses are written anew without what is no operation's (stacks, heaps, times), everything else is
 * left out, and of definitions those of sites (without their places in the program) and segments are left. So
 * a reader of the file decodes what a reader of the trace does, and is as fast. docs/ops-format.md is the
 * specification.
 *
 * Here is what the library's files share; programs see ops.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_OPS_TRACE_COPY_H
#define MEMTRACE_OPS_TRACE_COPY_H

#include "memtrace/ops.h"

/* Of the file's header, which is as long as a trace's: of which version of memtraces the chunks are; and how
 * a Resize is to be read. */
enum { OPS_CHUNKS = 1 };
enum { OPS_COPY_RESIZES = 1 }; /* as R, else as F and N */
#define OPS_COPY_HEADER 16

/* What is wrong with a header; NULL: it is right, and *resizes is set. */
const char *ops_copy_header_unpack(const uint8_t in[OPS_COPY_HEADER], bool *resizes);

#endif
