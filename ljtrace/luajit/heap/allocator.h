/* allocator.h - LuaJIT's heaps: the calls of an allocator function.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A Lua state gets all its memory by one function, f(ud, ptr, osize, nsize). Each recorder finds its address, and observes
 * its calls at entry and at return without changing the program: lua_getallocf still returns that function, and lua_close
 * still unmaps the arena. Blocks from before any hook could be set (GG_State, the first strings) are recorded like all
 * others.
 */
#ifndef LJTRACE_LUAJIT_HEAP_ALLOCATOR_H
#define LJTRACE_LUAJIT_HEAP_ALLOCATOR_H

#include "ljtrace/protocol/lua_layout.h"
#include <stdbool.h>
#include <stdint.h>

/* The state with the global state g (0 = not known) was closed. heap_too: all blocks of its heap are gone. */
void lt_lua_state_closed(uint64_t ud, uint64_t g, bool heap_too);
/* A state's allocator gets another pointer from here on, but it is the same heap. If a known state has one of these
 * pointers, nothing changes: the heaps of known states have numbers of their own. */
void lt_lua_heap_moved(uint64_t from, uint64_t to);
/* A heap's number in the ring: the pointer that its allocator function gets. A few small numbers mean other
 * heaps, so small pointers like NULL are changed. */
static inline uint64_t lt_lua_heap(uint64_t ud)
{
    return ud < 8 ? ud + 8 : ud;
}

/* A call that has begun: it is not looked at, since it is the recorder's own or too deep in others; or its return is
 * awaited, and it is a detail of another one, or is not. */
enum lt_lua_call { LT_CALL_IGNORED, LT_CALL_INNER, LT_CALL_OUTERMOST };

/* Thread tid enters an allocator function. registers: its general registers (enum host_register), which contain the
 * arguments; RSP is the address of the return address. image: the number of the LuaJIT that uses the function; 0 = not
 * known. */
enum lt_lua_call lt_lua_enter(uint32_t tid, const uint64_t *registers, uint32_t image);
/* A call that the recorder sees as a whole, and that calls nothing. */
struct lt_whole_call {
    uint64_t sp; /* at entry: the address of the return address */
    uint64_t ud, ptr;
    uint64_t osize, nsize;
    struct lt_vm *vm; /* filled in by lt_lua_enter_whole */
};
/* Thread tid enters an allocator function, for which it is known to which state the call belongs, and there is nothing else
 * to be found out. Returns false if there is; then nothing is done, and lt_lua_enter has to be called. The registers are
 * those of the host. */
bool lt_lua_enter_whole(uint32_t tid, struct lt_whole_call *call);
/* The call returns `result`. No other thread has called any of these functions meanwhile. */
void lt_lua_return_whole(const struct lt_whole_call *call, uint64_t result, const uint64_t *registers);
/* Its innermost awaited call returns; the registers contain the result. Returns lt_lua_returns_to. */
uint64_t lt_lua_return(uint32_t tid, const uint64_t *registers);
/* The stack pointer after the return of the innermost call of a thread; 0 = none is awaited. */
uint64_t lt_lua_returns_to(uint32_t tid);
/* A call begins at this place on the stack: drop the awaited ones that it shows to have ended. Returns true if there were
 * some, and none is left. lt_lua_enter does this, too. */
bool lt_lua_drop_stale(uint32_t tid, uint64_t sp);

/* Is this thread inside an allocator function? */
bool lt_lua_inside(uint32_t tid);

#endif
