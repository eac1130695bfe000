/* check.h - checks that each operation of an ops file is consistent with those before it.
 *
 * A handle identifies one block from its N to its F. A second N of a live handle, and an F or R of a handle that is
 * not live, are errors. Two live blocks at one address are no error: they occur in files made by `steve ops
 * --compat`, and in programs that mark a block at the start of another. They are counted, so that a replay or an
 * analysis can report them. Address 0 means that the address is unknown. Only live blocks take memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_OPS_CHECK_H
#define MEMTRACE_OPS_CHECK_H

#include "memtrace/blocks/blockmap.h"
#include "memtrace/ops.h"

/* The number of live blocks that begin at each address. */
struct ops_addresses {
    struct page_table table;
    uint64_t shared; /* number of N and R that put a block at the address of a live one */
};

bool ops_addresses_init(struct ops_addresses *a);
void ops_addresses_free(struct ops_addresses *a);
/* Count a block that begins or ends at an address. False when out of memory. */
bool ops_addresses_add(struct ops_addresses *a, uint64_t addr);
void ops_addresses_remove(struct ops_addresses *a, uint64_t addr);

struct ops_check {
    struct page_table live; /* handle -> address + 1, or 1 for the last address of the address space */
    struct ops_addresses addresses;
};

bool ops_check_init(struct ops_check *c);
void ops_check_free(struct ops_check *c);
/* Check one operation. Returns NULL, or a description of the error, which concerns its handle. */
const char *ops_check_one(struct ops_check *c, const struct op *op);

#endif
