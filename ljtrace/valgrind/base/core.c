/* core.c - what this tool changes of Valgrind's core and of its translator, VEX.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/base/options.h"
#include "libvex_ir.h"
#include "pub_tool_options.h"
#include "pub_tool_seqmatch.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

/* -- functions that replace the core's -- */

/* They do the same as Valgrind's at less cost, where that cost is highest: at the start of a program,
 * when thousands of superblocks are translated and thousands of symbols are compared, they took a sixth of
 * the time. */

void __real_sanityCheckIRSB(const IRSB *bb, const HChar *caller, Bool flat, IRType word);
void __wrap_sanityCheckIRSB(const IRSB *bb, const HChar *caller, Bool flat, IRType word);
Bool __real_vgPlain_string_match(const HChar *pattern, const HChar *text);
Bool __wrap_vgPlain_string_match(const HChar *pattern, const HChar *text);
void *__real_vgPlain_memset(void *to, Int c, SizeT n);
void *__wrap_vgPlain_memset(void *to, Int c, SizeT n);
void *__real_vgPlain_memcpy(void *to, const void *from, SizeT n);
void *__wrap_vgPlain_memcpy(void *to, const void *from, SizeT n);

/* VEX checks each superblock three times. These checks can only fail if VEX or a tool has an error. */
void __wrap_sanityCheckIRSB(const IRSB *bb, const HChar *caller, Bool flat, IRType word)
{
    if (lt_options.check_ir)
        __real_sanityCheckIRSB(bb, caller, flat, word);
}

/* Each symbol is compared with the name of each function to be replaced, and most of them differ in the first
 * letter. */
Bool __wrap_vgPlain_string_match(const HChar *pattern, const HChar *text)
{
    HChar c = pattern[0];
    Bool literal = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return !(literal && c != text[0]) && __real_vgPlain_string_match(pattern, text);
}

/* From this many bytes on, the processor's string instructions are faster than a loop over words. */
enum { MANY_BYTES = 64 };

void *__wrap_vgPlain_memset(void *to, Int c, SizeT n)
{
    void *at = to;
    if (n < MANY_BYTES)
        return __real_vgPlain_memset(to, c, n);
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(c) : "memory");
    return to;
}

void *__wrap_vgPlain_memcpy(void *to, const void *from, SizeT n)
{
    void *at = to;
    if (n < MANY_BYTES)
        return __real_vgPlain_memcpy(to, from, n);
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n) : : "memory");
    return to;
}

/* -- settings of the translator -- */

/* Superblocks end at calls and jumps (guest_chase is off). So the code that follows is translated once, and
 * not again in each of its callers. Programs start sooner, and the longer superblocks were not faster. It
 * also means that a watched function always begins a superblock of its own, so that its arguments are in the
 * guest's registers, whatever the precision of registers.
 *
 * Full precision of registers keeps loads whose value is not used. If no accesses are recorded, these loads
 * are not needed, and the precision that unwinding needs is enough, as with other tools. Superblocks are cut
 * after a store (ljtrace/valgrind/instrument/instrument.c), where all registers have to be up to date, only if
 * accesses are recorded. */

void lt_vex_defaults(void)
{
    VG_(clo_vex_control).guest_chase = False;
    VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdAllregsAtMemAccess;
    VG_(clo_px_file_backed) = VexRegUpdAllregsAtMemAccess;
}

void lt_vex_be_precise(void)
{
    VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdAllregsAtMemAccess;
    vex_control.iropt_register_updates_default = VexRegUpdAllregsAtMemAccess;
    VG_(clo_px_file_backed) = VexRegUpdAllregsAtMemAccess;
}

void lt_vex_init(void)
{
    if (lt_options.trace_mem || VG_(clo_vex_control).guest_chase)
        return;
    if (!lt_option_given("--px-file-backed"))
        VG_(clo_px_file_backed) = VexRegUpdUnwindregsAtMemAccess;
    if (!lt_option_given("--vex-iropt-register-updates"))
        VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdUnwindregsAtMemAccess;
}

/* -- signals of timers -- */

/* If a timer has expired, the kernel delivers its signal before a call that sets a timer returns. Programs
 * rely on this: LuaJIT's profiler (`luajit -jp`, jit.profile) stops its timer and then restores the old
 * action of SIGPROF, which ends the process. Valgrind blocks signals while the program computes, and polls
 * for them from time to time. So a signal could be delivered after the action was changed. Therefore the tool
 * polls for signals before such a call returns to the program. It does this here, and not in a wrapper of libc's
 * functions, so that it works for static programs too. */

enum { SIGNALS_AT_ONCE = 4 }; /* a poll delivers one signal, and others may be delivered before the timer's */

/* configure looks for this function. Without it signals are delivered when Valgrind polls next. */
#if !LT_CAN_POLL
static void VG_(poll_signals)(ThreadId tid)
{
}
#endif

static Bool sets_timer(UInt number)
{
    return number == __NR_setitimer || number == __NR_alarm || number == __NR_timer_settime ||
           number == __NR_timer_delete;
}

void lt_signals_after(ThreadId tid, UInt number, Long result)
{
    if (!sets_timer(number) || result < 0)
        return;
    for (UInt i = 0; i < SIGNALS_AT_ONCE; i++)
        VG_(poll_signals)(tid);
}
