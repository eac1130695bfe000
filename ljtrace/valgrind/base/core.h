/* core.h - what of Valgrind's core its headers for tools do not declare, and what this tool changes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The linker finds them by name only. So each has to be compared with every new version of Valgrind: a function whose
 * arguments have changed is linked without a word. Functions that are replaced, by the linker's --wrap, are declared
 * where they are replaced (git grep __wrap_ ljtrace).
 */
#ifndef LJTRACE_VALGRIND_BASE_CORE_H
#define LJTRACE_VALGRIND_BASE_CORE_H

#include "libvex.h"
#include "pub_tool_basics.h"
#include "pub_tool_debuginfo.h"

/* On amd64 an address is all that a symbol has. */
typedef struct {
    Addr main;
} SymAVMAs;

/* The symbols of an object, which the core uses to redirect functions. In older versions of Valgrind these
 * functions have one argument less, which does no harm. */
Int VG_(DebugInfo_syms_howmany)(const DebugInfo *di);
void VG_(DebugInfo_syms_getidx)(const DebugInfo *di, Int i, SymAVMAs *at, UInt *size, const HChar **name,
                                const HChar ***others, Bool *is_text, Bool *is_indirect, Bool *is_global);

extern Int VG_(cl_exec_fd); /* the program's file; negative after it was closed */

/* The settings that VEX uses after its start, which is at the first translation. From its main_globals.h. */
extern VexControl vex_control;

Int VG_(count_living_threads)(void);

/* Registers of a frame, as the core's D3UnwindRegs on amd64. */
struct core_registers {
    Addr ip, sp, bp;
};

/* Replace the registers of a frame by those of its caller, whose ip is a return address, by the call frame information
 * that the core has read. It reads only words from least to most. Returns False if there is none for the address. */
Bool VG_(use_CF_info)(struct core_registers *registers, Addr least, Addr most);

/* What the core's wrappers of system calls call when code changes. Headers for tools declare it only as a client
 * request. */
#if LT_CAN_DISCARD
void VG_(discard_translations)(Addr start, ULong range, const HChar *who);
#endif

/* The option --trace-children, and the path of the launcher that the core runs at each exec. */
#if LT_CAN_CHOOSE
extern Bool VG_(clo_trace_children);
extern const HChar *VG_(name_of_launcher);
#endif

/* Deliver the signals that are pending for a thread. */
#if LT_CAN_POLL
void VG_(poll_signals)(ThreadId tid);
#endif

/* -- settings of the translator -- */

/* Set defaults. Call it before the command line is read, so that the --vex-... options override them. */
void lt_vex_defaults(void);
/* Call after it was read. If only heap events are recorded, less is requested of the translator. */
void lt_vex_init(void);
/* From the next translation on, all registers are up to date at each memory access, even if other options
 * request less. */
void lt_vex_be_precise(void);

/* -- signals of timers -- */

/* Call after each system call of the program. result: the kernel's result, which is negative if it is an errno. */
void lt_signals_after(ThreadId tid, UInt number, Long result);

#endif
