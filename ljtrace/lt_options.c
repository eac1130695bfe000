/* lt_options.c - the command line. (host side, no libc; see lt_options.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "lt_options.h"
#include "lt_frames.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_options.h"
#include "pub_tool_replacemalloc.h"
#include "pub_tool_tooliface.h"

struct lt_options lt_options = {
    .out = "ljtrace.out.%p.ljt",
    .stack_depth = 12,
    .trace_mem = True,
    .trace_sp = False,
    .trace_fork = True,
    .heap_malloc = True,
    .heap_luajit = True,
    .level = 1,
};

/* A comma-separated list of heaps. */
static Bool parse_heaps(const HChar *list)
{
    Bool malloc_on = False, luajit_on = False;
    while (*list) {
        SizeT n = VG_(strcspn)(list, ",");
        if (n == 6 && VG_(strncmp)(list, "malloc", n) == 0)
            malloc_on = True;
        else if (n == 6 && VG_(strncmp)(list, "luajit", n) == 0)
            luajit_on = True;
        else
            return False;
        list += n + (list[n] == ',');
    }
    lt_options.heap_malloc = malloc_on;
    lt_options.heap_luajit = luajit_on;
    return malloc_on || luajit_on;
}

static Bool process_option(const HChar *arg)
{
    const HChar *text;
    if (VG_STR_CLO(arg, "--out", lt_options.out)) {
        if (lt_options.out[0] == 0)
            VG_(fmsg_bad_option)(arg, "--out needs a file name\n");
    } else if VG_BINT_CLO (arg, "--stack-depth", lt_options.stack_depth, 0, LT_MAX_DEPTH) {
    } else if VG_BINT_CLO (arg, "--compress", lt_options.level, 1, 19) {
    } else if VG_BOOL_CLO (arg, "--trace-mem", lt_options.trace_mem) {
    } else if VG_BOOL_CLO (arg, "--trace-sp", lt_options.trace_sp) {
    } else if VG_BOOL_CLO (arg, "--start-off", lt_options.start_off) {
    } else if VG_BOOL_CLO (arg, "--trace-fork", lt_options.trace_fork) {
    } else if VG_STR_CLO (arg, "--heap", text) {
        if (!parse_heaps(text))
            VG_(fmsg_bad_option)(arg, "--heap takes a list of: malloc, luajit\n");
    } else
        return VG_(replacement_malloc_process_cmd_line_option)(arg);
    return True;
}

static void print_usage(void)
{
    VG_(printf)
    ("    --out=FILE                write the memtrace to FILE; %%p is the process id [ljtrace.out.%%p.ljt]\n"
     "    --trace-mem=yes|no        record loads and stores, not only heap events [yes]\n"
     "    --trace-sp=yes|no         record accesses through the stack pointer, too: for programs whose\n"
     "                              stacks are heap blocks (fibers) [no]\n"
     "    --start-off=yes|no        record accesses only from LJTRACE_START or the monitor command `on` "
     "[no]\n"
     "    --trace-fork=yes|no       record forked children, each into a file of its own (%%p, else .PID) "
     "[yes]\n"
     "    --heap=malloc,luajit      which heaps to record [malloc,luajit]\n"
     "    --stack-depth=N           stack frames kept for each heap event, 0 to %d [12]\n"
     "    --compress=N              zstd level of the trace, 1 to 19 [1]\n",
     LT_MAX_DEPTH);
}

static void print_debug_usage(void)
{
    VG_(printf)("    (none)\n");
}

void lt_options_init(void)
{
    VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
}
