/* lt_options.h - what the user asked for. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Filled by lt_options.c before the program starts and constant from then on.
 */
#ifndef LT_OPTIONS_H
#define LT_OPTIONS_H

#include "pub_tool_basics.h"

struct lt_options {
    const HChar *out; /* --out: file name with %p */
    Int stack_depth;  /* --stack-depth: frames kept for each heap event */
    Bool trace_mem;   /* --trace-mem: record loads and stores */
    Bool trace_sp;    /* --trace-sp: also those through the stack pointer */
    Bool start_off;   /* --start-off: record no accesses until asked to */
    Bool trace_fork;  /* --trace-fork: forked children have traces of their own */
    Bool heap_malloc; /* --heap: record the C heap */
    Bool heap_luajit; /* --heap: record LuaJIT's heaps */
    Int level;        /* --compress: zstd level of the collector */
};

extern struct lt_options lt_options;

/* Register the options with the core. */
void lt_options_init(void);

#endif
