/* options.h - what the user asked for. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Filled by options.c before the program starts and constant from then on.
 */
#ifndef LJTRACE_TOOL_BASE_OPTIONS_H
#define LJTRACE_TOOL_BASE_OPTIONS_H

#include "pub_tool_basics.h"

struct lt_options {
    const HChar *out; /* --out: file name with %p and %n, "-" or "|COMMAND" */
    Int stack_depth;  /* --stack-depth: frames kept for each heap event */
    Bool trace_mem;   /* --trace-mem: record loads and stores */
    Bool trace_sp;    /* --trace-sp: also those through the stack pointer */
    Bool trace_freed; /* --trace-freed: know accesses to freed memory and double frees */
    Int redzone; /* --redzone: bytes before and after each block of malloc; 0 = as few as it has anyway */
    Bool start_off;   /* --start-off: record no accesses until asked to */
    Bool trace_fork;  /* --trace-fork: forked children have traces of their own */
    Bool heap_malloc; /* --heap: record the C heap */
    Bool heap_luajit; /* --heap: record LuaJIT's heaps */
    Bool heap_custom; /* --heap: record what the program declares by requests */
    Bool heap_mmap;   /* --heap: record anonymous mappings and the break */
    Bool heap_files;  /* --heap: record mappings of files, too */
    Int level;        /* --compress: zstd level of the collector */
    Bool lua;         /* --lua: find out where LuaJIT keeps its state */
    Bool lua_states;  /* --lua-states: record the transitions of its machine */
    Bool successor;   /* --successor: of a recorded program; runs also if it cannot be recorded itself */
    Bool check_ir;    /* --check-ir: let VEX check each superblock that is made */
    Bool recheck;     /* --check-stacks: walk stacks met before again, and compare */
    Bool text;        /* --text: classic text */
    Bool universe;    /* --universe=at-exit: a snapshot of all Lua objects when a state ends */
    ULong sample;     /* --sample-stacks: instructions from one sample to the next, 0 = none */
    Bool leak_scan;   /* --leak-scan: find out at the end which blocks can be reached */
    Bool keep_last;   /* --keep=last: of what is larger than max_size the last part, not the first */
    ULong max_size;   /* --max-size: bytes of the memtrace, 0 = any */
};

extern struct lt_options lt_options;

/* Options that do not go together end the program with a message. When all are known. */
void lt_options_check(void);
/* Register the options with the core. */
void lt_options_init(void);
/* Tell the programs that this one will start that they are a recorded program's. */
void lt_options_for_successors(void);
/* Does an argument of the command line begin so? */
Bool lt_option_given(const HChar *option);

/* Add the option NAME=VALUE, name with its dashes, of another part. parse returns False if the value is wrong; then the
 * message `wrong`, with a newline at its end, ends the program. */
void lt_option_add(const HChar *name, Bool (*parse)(const HChar *value), const HChar *wrong);

#endif
