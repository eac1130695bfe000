/* support_ops.h - what the tests of ops files share: writing operations to memory, and reading them back.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_TEST_SUPPORT_OPS_H
#define MEMTRACE_TEST_SUPPORT_OPS_H

#include "memtrace/test/support.h"

#include "memtrace/ops.h"

struct result {
    size_t count, equal; /* operations read, and how many of them in a row are as expected */
    int last;
    struct mt_error err;
};

/* Read a file and compare with the operations it was made of. */
struct result read_back(const void *data, size_t size, const struct op *expected, enum ops_kind hint);
/* The same of a reader that passes over accesses; expected are the others. */
struct result read_back_passing(const void *data, size_t size, const struct op *expected);
/* The file of n operations, written in pieces of many sizes. */
struct bytes packed(const struct op *ops, size_t n, enum ops_form form, enum ops_kind kind);

#endif
