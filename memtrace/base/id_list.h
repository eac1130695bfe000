/* id_list.h - a list of ascending numbers in pieces: the blocks that are never freed.
 *
 * Who guesses locks must know of a block, when it is made, whether it will be freed; without a list that
 * takes a walk over the whole file before. Memtraces and binary ops files have it at their ends, in pieces
 * that are chunks and blocks there: a byte, 1 if another one follows; then for each number how many lie
 * between it and the one before, as LEB128.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BASE_ID_LIST_H
#define MEMTRACE_BASE_ID_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers in a piece, at most; and its bytes. */
#define ID_LIST_MOST 262144
#define ID_LIST_SIZE (1 + ID_LIST_MOST * 10)

/* A list being read. */
struct id_list {
    bool begun, more; /* there is one; its next piece is still to come */
    uint64_t next;    /* the least that the next number can be */
    uint64_t count;   /* so far */
    bool keeps;       /* them, in: */
    uint64_t *list;   /* the caller's to free */
    size_t room;
};

/* Make the next piece at `to`, of ID_LIST_SIZE bytes: its size. *n numbers are left to tell, of which it
 * takes some; *next, of the list and 0 at first, goes from piece to piece. */
size_t id_list_write(uint8_t *to, const uint64_t **list, size_t *n, uint64_t *next);

/* Take a piece. False if it is wrong, has a number that is not below `end`, or one cannot be kept for want of
 * memory. */
bool id_list_read(struct id_list *o, const uint8_t *piece, size_t size, uint64_t end);

/* A list was to be read for who asks for it: all of it, or nothing if it is not whole. */
bool id_list_finish(struct id_list *o, bool whole, uint64_t **list, size_t *n);

/* Sort a list that is to be put. */
void id_list_sort(uint64_t *list, size_t n);

#endif
