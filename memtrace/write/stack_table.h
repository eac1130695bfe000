/* stack_table.h - ids of stacks. A stack is a frame and the stack of its callers, the parent; equal ones have one id.
 *
 * Ids count from 0, the empty stack, in the order in which stacks are first added. None is ever removed. A stack takes
 * 12 to 24 bytes: recursive programs have a million of them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_STACK_TABLE_H
#define MEMTRACE_WRITE_STACK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stack_node {
    uint32_t parent, frame;
    uint32_t first; /* the first stack that was added with this parent; 0 = none */
};

/* A table is empty if everything is zero. */
struct stack_table {
    struct stack_node *nodes; /* by id */
    size_t room;
    uint32_t count;
    uint32_t *slots; /* a hash table of the ids that are not the first ones of their parents; 0 = free */
    uint32_t mask;   /* number of slots - 1 */
    uint32_t hashed; /* number of ids in it */
};

#define STACK_TABLE_FAILED UINT32_MAX

/* Add the empty stack. False when out of memory. */
bool stack_table_init(struct stack_table *t);
void stack_table_free(struct stack_table *t);

/* The id of a stack, which is added if it is new; *is_new says so. STACK_TABLE_FAILED when out of memory. */
uint32_t stack_table_id(struct stack_table *t, uint32_t parent, uint32_t frame, bool *is_new);

#endif
