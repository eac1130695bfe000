/* check.h - does every operation of an ops file fit those before it?
 *
 * A handle names one block from its N to its F. A second N of a live handle, and an F or R of a handle that is
 * not live, are errors. Two live blocks at one address are not: files made by `steve ops --compat` have them,
 * and so have programs that mark a block at the start of another. They are counted, for whoever replays or
 * counts such a file should know. An address of 0 is no address. Takes memory for the live blocks only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_OPS_CHECK_H
#define MEMTRACE_OPS_CHECK_H

#include "memtrace/blocks/page_table.h"
#include "memtrace/ops.h"

/* How many live blocks begin at each address. */
struct ops_addresses {
    struct page_table table;
    uint64_t shared; /* N and R that made a block at the address of a live one */
};

bool ops_addresses_init(struct ops_addresses *a);
void ops_addresses_free(struct ops_addresses *a);
/* A block begins, or ends, at an address. False: out of memory. */
bool ops_addresses_add(struct ops_addresses *a, uint64_t addr);
void ops_addresses_remove(struct ops_addresses *a, uint64_t addr);

struct ops_check {
    struct page_table live; /* handle -> address + 1, or 1 for the last address there is */
    struct ops_addresses addresses;
};

bool ops_check_init(struct ops_check *c);
void ops_check_free(struct ops_check *c);
/* Look at one operation. NULL: it fits; else what is wrong with its handle. */
const char *ops_check_one(struct ops_check *c, const struct op *op);

#endif
