/* options.h - the command line's options.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * options.c sets them before the program starts; they are constant afterwards.
 */
#ifndef LJTRACE_VALGRIND_BASE_OPTIONS_H
#define LJTRACE_VALGRIND_BASE_OPTIONS_H

#include "pub_tool_basics.h"

struct lt_options {
    const HChar *out; /* --out: file name with %p and %n, "-" or "|COMMAND" */
    Int stack_depth;  /* --stack-depth: frames kept for each heap event */
    Bool trace_mem;   /* --trace-mem: record loads and stores */
    Bool trace_sp;    /* --trace-sp: also those relative to the stack pointer */
    Bool trace_freed; /* --trace-freed: recognise accesses to freed memory, and double frees */
    /* --redzone: unused bytes before and after each block of malloc; 0 = Valgrind's minimum. */
    Int redzone;
    Bool start_off;   /* --start-off: record no accesses until requested */
    Bool trace_fork;  /* --trace-fork: forked children have traces of their own */
    Bool heap_malloc; /* --heap: record the C heap */
    Bool heap_luajit; /* --heap: record LuaJIT's heaps */
    Bool heap_custom; /* --heap: record blocks that the program declares by requests */
    Bool heap_mmap;   /* --heap: record anonymous mappings and the program break */
    Bool heap_files;  /* --heap: record mappings of files, too */
    Int level;        /* --compress: zstd level of the collector */
    Bool lua;         /* --lua: find where LuaJIT keeps its state */
    Bool lua_states;  /* --lua-states: record the changes of its VM state */
    /* --successor: a recorded program has started this one; run it even if it cannot be recorded. */
    Bool successor;
    Bool check_ir;         /* --check-ir: let VEX check each superblock */
    Bool recheck;          /* --check-stacks: repeat the walks of cached stacks and compare */
    Bool text;             /* --text: classic text */
    Bool snapshot_at_exit; /* --universe=at-exit: a snapshot of all Lua objects when a state ends */
    Bool snapshot_growing; /* --universe=growing: each time the heap of a state has grown by half */
    ULong sample_stacks;   /* --sample-stacks: instructions between two samples, 0 = no samples */
    /* --sample-blocks=1/N: N; 0 = record all blocks. --sample-seed: of the random numbers by which they are chosen. */
    ULong sample_blocks, sample_seed;
    Bool leak_scan; /* --leak-scan: find the blocks that can be reached at the end */
    Bool keep_last; /* --keep=last: if the trace exceeds max_size, keep its last part */
    ULong max_size; /* --max-size: bytes of the memtrace, 0 = no limit */
};

extern struct lt_options lt_options;

/* Check the combination of options, when all are known, and pass on those of the reader of LuaJIT. A combination that is
 * not possible ends the program with a message. */
void lt_options_check(void);
/* Register the options with the core. */
void lt_options_init(void);
/* Pass on to the programs that this one starts that a recorded program starts them. */
void lt_options_for_successors(void);
/* Does an argument of the command line begin with this text? */
Bool lt_option_given(const HChar *option);

/* Add the option NAME=VALUE, name with its dashes, of another part. parse returns False if the value is wrong; then the
 * message `wrong`, with a newline at its end, ends the program. */
void lt_option_add(const HChar *name, Bool (*parse)(const HChar *value), const HChar *wrong);

#endif
