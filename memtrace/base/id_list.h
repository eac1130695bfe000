/* id_list.h - a list of ascending numbers, stored in pieces: the blocks that are never freed.
 *
 * Programs that guess locks must know of a block, when it is allocated, whether it will be freed. Without a list they
 * need an additional pass over the whole file. Memtraces and binary ops files therefore have the list at their ends,
 * in pieces that are chunks or blocks there. A piece is a byte, 1 if another piece follows; then, for each number, how
 * many numbers are between it and the one before, as LEB128.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BASE_ID_LIST_H
#define MEMTRACE_BASE_ID_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Largest number of numbers in a piece, and of its bytes. */
#define ID_LIST_MOST 262144
#define ID_LIST_SIZE (1 + ID_LIST_MOST * 10)

/* A list being read. */
struct id_list {
    bool begun, more; /* the first piece was read; another piece must follow */
    uint64_t next;    /* smallest possible next number */
    uint64_t count;   /* numbers read so far */
    bool keeps;       /* keep the numbers in `list` */
    uint64_t *list;   /* freed by the caller */
    size_t room;
};

/* Write the next piece to `to`, which has ID_LIST_SIZE bytes, and return its size. Advances *list past the numbers
 * written and reduces *n by their count. *next is 0 before the first piece and is kept for the next one. */
size_t id_list_write(uint8_t *to, const uint64_t **list, size_t *n, uint64_t *next);

/* Read a piece. False if it is malformed, contains a number that is not below `end`, or out of memory. */
bool id_list_read(struct id_list *o, const uint8_t *piece, size_t size, uint64_t end);

/* Hand the list to the caller, or nothing if it is not `whole`. Returns `whole`. */
bool id_list_finish(struct id_list *o, bool whole, uint64_t **list, size_t *n);

/* Sort a list before it is written. */
void id_list_sort(uint64_t *list, size_t n);

#endif
