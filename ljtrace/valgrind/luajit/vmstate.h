/* vmstate.h - observe stores to the two words in which LuaJIT keeps the state of its VM. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each Lua state has a word with the state of its VM and one with the bytecode address that is being
 * recorded. Generated code looks up the address of a store in a table of one byte for each hash. If the byte
 * is set, it calls lt_watch_hit, which compares the address exactly. Frequent states are written into the
 * ring without a call (vmstate_store.h).
 *
 * Only stores that can be to these words are looked up. In code of a LuaJIT image, these are stores of 4
 * bytes, and stores to the compiler's structure. In code generated at run time, these are stores of a
 * constant. Stores that decrement a number on the stack are looked up too, as the assembler of traces makes
 * them.
 */
#ifndef LJTRACE_VALGRIND_LUAJIT_VMSTATE_H
#define LJTRACE_VALGRIND_LUAJIT_VMSTATE_H

#include "ljtrace/luajit/core/states.h"
#include "pub_tool_basics.h"

enum { LT_WATCH_SLOTS = 4096 };

/* Indexed by (address >> 2) modulo LT_WATCH_SLOTS; 0 = not watched. LT_WATCH_CALLS: the tool is called even
 * for constants that generated code writes into the ring itself. */
enum { LT_WATCH_HIT = 1, LT_WATCH_CALLS = 2 };
extern UChar lt_watch_table[LT_WATCH_SLOTS];

/* Write the states of all VMs into the ring: a trace begins in the middle of the program. */
void lt_watch_report_all(void);
/* Called after a store. displacement: that of its address, or 0 if the address is not a register plus a
 * constant. If accesses are recorded, the change is written into the ring before the next superblock, because
 * nothing may be written in the middle of a segment; otherwise at once. */
void lt_watch_hit(Addr a, ULong displacement);

/* Can this constant be a VM state other than a trace? */
Bool lt_watch_is_state(UInt value);
/* Can it be written into the ring without a call? It has to be a trace or one of the frequent states. */
Bool lt_watch_is_plain_state(Int state);
/* Is this the word with a VM state? */
Bool lt_watch_is_state_word(Addr a);
/* Has code stored to such a word with this displacement? */
Bool lt_watch_is_state_displacement(Long displacement);
/* Can a store with this displacement be to the word with the bytecode that is being recorded? */
Bool lt_watch_is_recorder(Long displacement);

/* Follow the states that come and go. */
void lt_watch_init(void);

#endif
