/* ops_unfreed.h - the list, at the end of a binary ops file, of the blocks that are never freed.
 *
 * Who guesses locks must know of a block, when it is made, whether it will be freed; without this list that
 * takes a walk over the whole file before. The list is ordinals of N (ops.h), ascending, told in blocks of no
 * operations, each: a byte, 1 if another one follows; then for each ordinal how many lie between it and the
 * one before, as LEB128.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_OPS_UNFREED_H
#define MEMTRACE_OPS_UNFREED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ordinals in a block of the list, at most; and its bytes. */
#define OPS_UNFREED_MOST 262144
#define OPS_UNFREED_SIZE (1 + OPS_UNFREED_MOST * 10)

/* A list being read. */
struct ops_unfreed {
    bool begun, more; /* there is one; its next block is still to come */
    uint64_t next;    /* the least that the next ordinal can be */
    bool keeps;       /* the ordinals; else they are only looked at */
    uint64_t *list;   /* the caller's to free */
    size_t n, room;
};

/* Make the payload of the next block of the list at `to`, of OPS_UNFREED_SIZE bytes: its size. *n ordinals
 * are left to tell, of which it takes some; *next, of the ordinals and 0 at first, goes from block to block.
 */
size_t ops_unfreed_put(uint8_t *to, const uint64_t **ordinals, size_t *n, uint64_t *next);

/* Take the payload of a block of it. False if it is wrong, has an ordinal that is not below `total`, or one
 * cannot be kept for want of memory. */
bool ops_unfreed_take(struct ops_unfreed *u, const uint8_t *payload, size_t size, uint64_t total);

#endif
