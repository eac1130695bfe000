/* op_coding.h - definitions shared by encoder and decoder of binary ops files: flags, block header, predictions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_OPS_OP_CODING_H
#define MEMTRACE_OPS_OP_CODING_H

#include "memtrace/ops/binary.h"

#include <xxhash.h>

/* The first byte of an operation: the code in the low four bits, and these flags. If bit 7 is set it is a token
 * (shapes.h). */
enum { OPS_HANDLE_KNOWN = 0x10, OPS_ADDR_ZERO = 0x20, OPS_SIZE_KNOWN = 0x40, OPS_RESERVED = 0x80 };

/* Codes of marks, above those of operations. Bits 4 to 7 are 0, and a number follows. Marks precede an operation
 * in this order, each at most once. */
enum { OPS_MARK_THREAD = OP_CODES, OPS_MARK_TIME, OPS_MARKS };

#define OPS_LONGEST (1 + 3 * UVARINT_MAX_BYTES + 2 * (1 + UVARINT_MAX_BYTES))
/* u32 number of operations, u32 size of the payload, u32 compressed size, u32 zero, u64 number of operations of
 * the file up to the end of this block, u64 hash. */
#define OPS_HEADER_SIZE 32

/* XXH3 of the compressed payload. Its seed is the hash of the header fields before it. */
static inline uint64_t ops_block_hash(const uint8_t *header, const uint8_t *payload, size_t stored)
{
    return XXH3_64bits_withSeed(payload, stored, XXH3_64bits(header, OPS_HEADER_SIZE - 8));
}

struct ops_guess {
    uint64_t handle, size;
};

static inline struct ops_guess ops_guess(const struct ops_predictor *p, uint32_t code)
{
    return (struct ops_guess){code == OP_NEW ? p->next_handle : p->handle, p->sizes[code]};
}

/* The address that the next address is encoded relative to. */
static inline uint64_t *ops_addr_guess(struct ops_predictor *p, uint64_t handle, uint32_t code)
{
    return code == OP_NEW ? &p->new_addr : &p->addrs[handle % OPS_PREDICTED];
}

/* Store a word as number `next`. The caller increments p->recent_next, which it may keep in a register during a
 * loop. */
static inline void ops_put_recent(struct ops_predictor *p, uint32_t next, struct ops_word w)
{
    const uint32_t i = next % OPS_RECENT;
    p->recent_addr[i] = w.addr;
    p->recent_handle[i] = w.handle;
    p->low[i] = (uint32_t)w.handle;
}

static inline void ops_learn(struct ops_predictor *p, const struct op *op)
{
    p->handle = op->handle;
    p->sizes[op->code] = op->size;
    p->addrs[op->handle % OPS_PREDICTED] = op->addr;
    if (op->code == OP_NEW || op->code == OP_RESIZE)
        ops_put_recent(p, p->recent_next++, (struct ops_word){op->addr, op->handle});
    if (op->code != OP_NEW)
        return;
    p->next_handle = op->handle + 1;
    p->new_addr = op->addr;
}

#endif
