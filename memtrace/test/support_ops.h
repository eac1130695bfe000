/* support_ops.h - code shared by the tests of ops files: writes operations to memory and reads them back.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_TEST_SUPPORT_OPS_H
#define MEMTRACE_TEST_SUPPORT_OPS_H

#include "memtrace/test/support.h"

#include "memtrace/ops.h"

struct result {
    size_t count, equal; /* number of operations read, and of those before the first difference */
    int last;
    struct mt_error err;
};

/* Read a file and compare it with its operations. */
struct result read_back(const void *data, size_t size, const struct op *expected, enum ops_kind hint);
/* The same for a reader that skips accesses; the other operations are expected. */
struct result read_back_passing(const void *data, size_t size, const struct op *expected);
/* The file of n operations, written in pieces of many sizes. */
struct bytes packed(const struct op *ops, size_t n, enum ops_form form, enum ops_kind kind);

#endif
