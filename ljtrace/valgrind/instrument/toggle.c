/* toggle.c - record accesses only while a thread is inside certain functions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * For each thread one number is kept: the stack pointer just above the return address of its outermost call
 * of such a function. Inner calls do not change it. A return at that place or above it ends the call. A
 * return far above is on another stack (a signal's, a coroutine's) and is ignored.
 */
#include "ljtrace/valgrind/instrument/toggle.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_seqmatch.h"
#include "pub_tool_threadstate.h"

enum { MAX_PATTERNS = 32, MAX_THREADS = 10000, SAME_STACK = 1 << 20 };
#define NOT_INSIDE (~(Addr)0)

static const HChar *s_pattern[MAX_PATTERNS];
static UInt s_patterns;
static Bool s_entered;
static ThreadId s_running;
static Addr s_end[MAX_THREADS]; /* indexed by thread; 0 = not seen yet */

Addr lt_toggle_sp = NOT_INSIDE;

static Bool add(const HChar *pattern)
{
    if (!pattern[0] || s_patterns == MAX_PATTERNS)
        return False;
    s_pattern[s_patterns++] = pattern;
    return True;
}

Bool lt_toggle_wanted(void)
{
    return s_patterns > 0;
}

static Bool matches(const HChar *name)
{
    for (UInt i = 0; i < s_patterns; i++)
        if (VG_(string_match)(s_pattern[i], name))
            return True;
    return False;
}

/* The length of a C++ name without its parameters: up to the parenthesis that matches the last one. */
static SizeT bare_length(const HChar *name)
{
    SizeT at = VG_(strlen)(name), open = 0;
    while (at > 0 && name[at - 1] != ')')
        at--;
    for (; at > 0; at--) {
        open += name[at - 1] == ')';
        open -= name[at - 1] == '(';
        if (open == 0)
            return at - 1;
    }
    return 0;
}

Bool lt_toggle_is_entry(Addr ip)
{
    static HChar bare[4096];
    const HChar *name;
    if (s_patterns == 0 || !VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), ip, &name))
        return False;
    SizeT length = bare_length(name);
    if (length == 0 || length >= sizeof bare)
        return matches(name);
    VG_(memcpy)(bare, name, length);
    bare[length] = 0;
    return matches(name) || matches(bare);
}

static void set(Addr end)
{
    Bool inside = end != NOT_INSIDE;
    lt_toggle_sp = s_end[s_running] = end;
    HOST_PUT(focus, .on = inside);
}

void lt_toggle_thread(ThreadId tid)
{
    tl_assert(tid < MAX_THREADS);
    s_running = tid;
    if (s_patterns > 0 && s_end[tid] == 0)
        set(NOT_INSIDE);
    lt_toggle_sp = s_end[tid] ? s_end[tid] : NOT_INSIDE;
}

/* Another thread may get this number. */
void lt_toggle_thread_ends(ThreadId tid)
{
    s_end[tid] = 0;
}

/* An entry at or above the place of the current call means that this call was left by a long jump. */
void lt_toggle_enter(Addr sp)
{
    Addr end = sp + sizeof(Addr);
    s_entered = True;
    if (lt_toggle_sp == NOT_INSIDE)
        set(end);
    else if (end > lt_toggle_sp && end - lt_toggle_sp < SAME_STACK)
        lt_toggle_sp = s_end[s_running] = end;
}

void lt_toggle_return(Addr sp)
{
    if (lt_toggle_sp != NOT_INSIDE && sp - lt_toggle_sp < SAME_STACK)
        set(NOT_INSIDE);
}

void lt_toggle_finish(void)
{
    if (s_patterns > 0 && !s_entered)
        VG_(umsg)("ljtrace: no function matched --toggle-fn: no accesses were recorded\n");
}

void lt_toggle_init(void)
{
    lt_option_add("--toggle-fn", add, "--toggle-fn has no name, or was given too often; * and ? are wild\n");
}
