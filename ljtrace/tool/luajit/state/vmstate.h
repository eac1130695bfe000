/* vmstate.h - stores of LuaJIT to the two words that say what its machine does. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each state has a word with the state of its machine and one with the bytecode address being recorded.
 * Generated code looks an address that is stored to up in a table of one byte for each hash; a hit calls
 * lt_watch_hit, which compares exactly; frequent states are told by the code itself (vmstate_store.h). Only
 * stores that can be meant are looked up: of 4 bytes, or to the compiler's structure, in code of a LuaJIT
 * image, or a constant in code made at run time; and what counts something down on the stack, as the
 * assembler of traces does.
 */
#ifndef LJTRACE_TOOL_LUAJIT_STATE_VMSTATE_H
#define LJTRACE_TOOL_LUAJIT_STATE_VMSTATE_H

#include "ljtrace/tool/luajit/core/states.h"

enum { LT_WATCH_SLOTS = 4096 };

/* By (address >> 2) modulo LT_WATCH_SLOTS: 0 = not watched. CALLS: the tool is called for constants, too,
 * that code tells by itself. */
enum { LT_WATCH_HIT = 1, LT_WATCH_CALLS = 2 };
extern UChar lt_watch_table[LT_WATCH_SLOTS];

/* Tell all states: a trace begins in the midst of the program. */
void lt_watch_tell_all(void);
/* Watch a state that is new or has another heap, and say so; a state ends. */
void lt_watch_begin(const struct lt_vm *vm);
void lt_watch_end(const struct lt_vm *vm);
/* Make the table anew: a state is gone. */
void lt_watch_all(void);
/* Called behind the store; displacement: 0 if the address is of another form than register and constant. What
 * is found is told at once if no accesses are recorded, else before the next superblock: nothing may be put
 * into the ring in the midst of a segment. */
void lt_watch_hit(Addr a, ULong displacement);

/* Code of a LuaJIT image lies there. */
void lt_watch_code(Addr from, Addr to);
/* That with this address is unloaded. */
void lt_watch_forget_code(Addr ip);
Bool lt_watch_is_lua_code(Addr ip);
/* May this constant be a state of the machine, other than a trace? */
Bool lt_watch_is_state(UInt value);
/* May it be told without a call: a trace, or one of the frequent states? */
Bool lt_watch_is_plain_state(Int state);
/* Is this a word with a machine's state; has code stored to one with this displacement? */
Bool lt_watch_is_state_word(Addr a);
Bool lt_watch_is_state_displacement(Long displacement);
/* May a store with this displacement be to the word that says what is being recorded? */
Bool lt_watch_is_recorder(Long displacement);

#endif
