/* stack_tree.h - numbers for stacks: each is a node, a stack without its innermost frame and that frame.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Events refer to a stack by the number of its node. The collector learns each node once (RAW_NODE). Stacks of C and
 * joined stacks are in one tree. If it is full, it begins anew: all numbers get other meanings.
 */
#ifndef LJTRACE_LUAJIT_BASE_STACK_TREE_H
#define LJTRACE_LUAJIT_BASE_STACK_TREE_H

#include <stdint.h>

/* Find the stack of n code addresses or keys, innermost first, which were named. node[i] becomes the number of the stack from
 * the i-th on: node[0] is that of the whole stack, and node[n] is 0, the empty stack. The numbers of the `known` outermost
 * frames are in `node` already. */
void stack_tree_find(const uint64_t *ips, uint32_t n, uint32_t *node, uint32_t known);
/* How often the tree has begun anew: numbers found under another value mean nothing. */
uint32_t stack_tree_generation(void);
/* Make sure that so many nodes can be added before it begins anew; it may do so now. */
void stack_tree_reserve(uint32_t n);
/* Another recording begins, or code addresses may mean something else from now on. */
void stack_tree_restart(void);

#endif
