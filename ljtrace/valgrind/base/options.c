/* options.c - the command line. (see options.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/luajit/base/call_stack.h"
#include "ljtrace/luajit/base/options.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_options.h"
#include "pub_tool_replacemalloc.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_xarray.h"

struct lt_options lt_options = {
    .stack_depth = 200,
    .trace_mem = True,
    .trace_sp = False,
    .trace_freed = True,
    .leak_scan = True,
    .trace_fork = True,
    .heap_malloc = True,
    .heap_luajit = True,
    .heap_custom = True,
    .lua = True,
    .lua_states = True,
    .level = 1,
};

/* Options of other parts, which parse them. */
enum { MOST_HOOKS = 8 };
static struct hook {
    const HChar *name, *wrong;
    Bool (*parse)(const HChar *value);
} s_hook[MOST_HOOKS];
static UInt s_hooked;

enum { SMALLEST = 64 << 10, LEAST_SAMPLE = 1000, SCARCEST_BLOCKS = 1000000 };

static const struct {
    const HChar *name;
    Bool *on;
} s_heaps[] = {{"malloc", &lt_options.heap_malloc},
               {"luajit", &lt_options.heap_luajit},
               {"custom", &lt_options.heap_custom},
               {"mmap", &lt_options.heap_mmap},
               {"files", &lt_options.heap_files}};
enum { HEAPS = sizeof s_heaps / sizeof *s_heaps };

static Bool choose_heap(const HChar *name, SizeT length)
{
    for (UInt i = 0; i < HEAPS; i++)
        if (VG_(strlen)(s_heaps[i].name) == length && VG_(strncmp)(name, s_heaps[i].name, length) == 0)
            return *s_heaps[i].on = True;
    return False;
}

/* Parse a comma-separated list of heaps. `files` includes `mmap`. */
static Bool parse_heaps(const HChar *list)
{
    Bool any = False;
    for (UInt i = 0; i < HEAPS; i++)
        *s_heaps[i].on = False;
    while (*list) {
        SizeT n = VG_(strcspn)(list, ",");
        if (!choose_heap(list, n))
            return False;
        any = True;
        list += n + (list[n] == ',');
    }
    lt_options.heap_mmap |= lt_options.heap_files;
    return any;
}

/* Parse a number of bytes, which k, m or g may follow. */
static Bool parse_size(const HChar *text, ULong *bytes)
{
    HChar *end;
    Long n = VG_(strtoll10)(text, &end);
    UInt shift = *end == 'k' || *end == 'K'   ? 10
                 : *end == 'm' || *end == 'M' ? 20
                 : *end == 'g' || *end == 'G' ? 30
                                              : 0;
    if (end == text || n < 0 || n > 1LL << (60 - shift) || end[shift > 0] != 0)
        return False;
    *bytes = (ULong)n << shift;
    return True;
}

/* Parse a number of decimal digits only. */
static Bool parse_number(const HChar *text, Long least, Long most, ULong *number)
{
    HChar *end;
    Long n = VG_(strtoll10)(text, &end);
    if (!VG_(isdigit)(*text) || *end != 0 || n < least || n > most)
        return False;
    *number = (ULong)n;
    return True;
}

/* Parse the part of the blocks to record: 1/N. 1/1 means all of them. */
static Bool parse_part(const HChar *text, ULong *every)
{
    if (VG_(strncmp)(text, "1/", 2) != 0 || !parse_number(text + 2, 1, SCARCEST_BLOCKS, every))
        return False;
    *every = *every == 1 ? 0 : *every;
    return True;
}

/* A seed that is another one in each run. */
static ULong random_seed(void)
{
    struct vki_timeval now;
    VG_(gettimeofday)(&now, NULL);
    return (((ULong)now.tv_sec * 1000000 + (ULong)now.tv_usec) ^ ((ULong)VG_(getpid)() << 32)) >> 1;
}

void lt_option_add(const HChar *name, Bool (*parse)(const HChar *value), const HChar *wrong)
{
    tl_assert(s_hooked < MOST_HOOKS);
    s_hook[s_hooked++] = (struct hook){name, wrong, parse};
}

/* An option of another part: --NAME=VALUE. */
static Bool parse_hooked(const HChar *arg)
{
    for (UInt i = 0; i < s_hooked; i++) {
        const struct hook *h = &s_hook[i];
        SizeT n = VG_(strlen)(h->name);
        if (VG_(strncmp)(arg, h->name, n) != 0 || arg[n] != '=')
            continue;
        if (!h->parse(arg + n + 1))
            VG_(fmsg_bad_option)(arg, "%s", h->wrong);
        return True;
    }
    return False;
}

/* An option of the recorder at native speed. */
static Bool is_native(const HChar *arg)
{
    static const HChar *const names[] = {"--pool-fn",   "--pages",  "--pages-signal",
                                         "--when-full", "--sample", "--existing-blocks"};
    for (UInt i = 0; i < sizeof names / sizeof *names; i++) {
        const SizeT n = VG_(strlen)(names[i]);
        if (VG_(strncmp)(arg, names[i], n) == 0 && (arg[n] == '=' || !arg[n]))
            return True;
    }
    return False;
}

static Bool process_option(const HChar *arg)
{
    const HChar *text;
    if (VG_STR_CLO(arg, "--out", lt_options.out)) {
        if (lt_options.out[0] == 0 || VG_(strcmp)(lt_options.out, "|") == 0)
            VG_(fmsg_bad_option)(arg, "--out needs a file name, -, or |COMMAND\n");
    } else if VG_BINT_CLO (arg, "--stack-depth", lt_options.stack_depth, 0, LT_MAX_DEPTH) {
    } else if VG_BINT_CLO (arg, "--compress", lt_options.level, 1, RECORDING_LEVELS) {
    } else if VG_BOOL_CLO (arg, "--trace-mem", lt_options.trace_mem) {
    } else if VG_BOOL_CLO (arg, "--trace-sp", lt_options.trace_sp) {
    } else if VG_BOOL_CLO (arg, "--trace-freed", lt_options.trace_freed) {
    } else if VG_BINT_CLO (arg, "--redzone", lt_options.redzone, 0, RECORDING_MOST_BESIDE) {
        VG_(clo_redzone_size) = lt_options.redzone;
    } else if VG_BOOL_CLO (arg, "--leak-scan", lt_options.leak_scan) {
    } else if VG_BOOL_CLO (arg, "--start-off", lt_options.start_off) {
    } else if VG_BOOL_CLO (arg, "--trace-fork", lt_options.trace_fork) {
    } else if VG_STR_CLO (arg, "--heap", text) {
        if (!parse_heaps(text))
            VG_(fmsg_bad_option)(arg, "--heap takes a list of: malloc, luajit, custom, mmap, files\n");
    } else if VG_STR_CLO (arg, "--max-size", text) {
        if (!parse_size(text, &lt_options.max_size) || lt_options.max_size < SMALLEST)
            VG_(fmsg_bad_option)
        (arg, "--max-size takes a number of bytes, 64k or more, such as 500m or 2g\n");
    } else if VG_XACT_CLO (arg, "--keep=last", lt_options.keep_last, True) {
    } else if VG_XACT_CLO (arg, "--keep=first", lt_options.keep_last, False) {
    } else if VG_STR_CLO (arg, "--keep", text) {
        VG_(fmsg_bad_option)(arg, "--keep is first or last\n");
    } else if VG_XACT_CLO (arg, "--universe=at-exit", lt_options.snapshot_at_exit, True) {
    } else if VG_XACT_CLO (arg, "--universe=growing", lt_options.snapshot_growing, True) {
    } else if (VG_(strcmp)(arg, "--universe=no") == 0) {
        lt_options.snapshot_at_exit = lt_options.snapshot_growing = False;
    } else if VG_STR_CLO (arg, "--universe", text) {
        VG_(fmsg_bad_option)(arg, "--universe is at-exit, growing or no\n");
    } else if VG_STR_CLO (arg, "--sample-stacks", text) {
        if (!parse_size(text, &lt_options.sample_stacks) ||
            (lt_options.sample_stacks && lt_options.sample_stacks < LEAST_SAMPLE))
            VG_(fmsg_bad_option)
        (arg, "--sample-stacks takes a number of instructions, 1000 or more; 0 = no samples\n");
    } else if VG_STR_CLO (arg, "--sample-blocks", text) {
        if (!parse_part(text, &lt_options.sample_blocks))
            VG_(fmsg_bad_option)
        (arg, "--sample-blocks takes the part of the blocks to record, 1/N, N being 1 to 1000000, such as "
              "1/100\n");
    } else if VG_STR_CLO (arg, "--sample-seed", text) {
        if (!parse_number(text, 1, (Long)(~(ULong)0 >> 1), &lt_options.sample_seed))
            VG_(fmsg_bad_option)(arg, "--sample-seed takes a number, 1 or more\n");
    } else if VG_BOOL_CLO (arg, "--lua", lt_options.lua) {
    } else if VG_BOOL_CLO (arg, "--lua-states", lt_options.lua_states) {
    } else if VG_BOOL_CLO (arg, "--check-stacks", lt_options.recheck) {
    } else if VG_BOOL_CLO (arg, "--check-ir", lt_options.check_ir) {
    } else if VG_BOOL_CLO (arg, "--successor", lt_options.successor) {
    } else if VG_BOOL_CLO (arg, "--text", lt_options.text) {
    } else if (is_native(arg)) {
        VG_(fmsg_bad_option)
        (arg, "ljtrace run or ljtrace attach, which record at native speed, have this option; the tool has "
              "not\n");
    } else
        return parse_hooked(arg) || VG_(replacement_malloc_process_cmd_line_option)(arg);
    return True;
}

static void print_usage(void)
{
    VG_(printf)
    ("    --out=FILE                write the memtrace to FILE; %%p is the process id, %%n a number; - is "
     "the\n"
     "                              standard output, '|CMD' a command [ljtrace.out.%%p.ljt]\n"
     "    --text=yes|no             write classic text (>>> lines) [no; default file: ljtrace.out.%%p.txt]\n"
     "    --max-size=SIZE           end the recording before the file is larger than SIZE (k, m, g) [any "
     "size]\n"
     "    --keep=first|last         which part of a recording that reaches --max-size is kept: the last one\n"
     "                              takes two files, FILE.ljt and before it FILE.earlier.ljt [first]\n"
     "    --trace-mem=yes|no        record loads and stores, not only heap events [yes]\n"
     "    --trace-sp=yes|no         record accesses relative to the stack pointer, too: for programs whose\n"
     "                              stacks are heap blocks (fibers) [no]\n"
     "    --trace-freed=yes|no      recognise accesses to freed memory, and double frees [yes]\n"
     "    --redzone=N               leave N bytes, 0 to 4096, unused before and after each block of malloc,\n"
     "                              so that accesses to them are reported; changes addresses [16]\n"
     "    --leak-scan=yes|no        find out at the end which blocks the program can still reach [yes]\n"
     "    --start-off=yes|no        record accesses only from LJTRACE_START or the monitor command `on` "
     "[no]\n"
     "    --toggle-fn=NAME          record accesses only inside functions NAME (with * and ?); can be "
     "repeated\n"
     "    --trace-fork=yes|no       record forked children, each into a file of its own (%%p, else .PID) "
     "[yes]\n"
     "    --heap=LIST               which heaps to record: malloc, luajit, custom (requests of the "
     "program),\n"
     "                              mmap (anonymous mappings, brk), files (those of files, too)\n"
     "                              [malloc,luajit,custom]\n"
     "    --alloc-prefix=PREFIX     record PREFIXmalloc, PREFIXfree and their relatives; can be repeated\n"
     "    --observe-alloc=PATTERN[=NAME]  record functions by symbol (with * and ?) as NAME, such as "
     "malloc;\n"
     "                              without NAME, as the function that their names end with; can be "
     "repeated\n"
     "    --lua=yes|no              read lines, types, states and snapshots from LuaJIT; without it,\n"
     "                              its heaps are recorded with C frames only [yes]\n"
     "    --lua-states=yes|no       record the state of LuaJIT's virtual machine at each moment [yes]\n"
     "    --stack-depth=N           stack frames kept for each heap event, 0 to %d; the innermost\n"
     "                              Lua line is always among them [200]\n"
     "    --sample-stacks=N         take the call stack every N instructions (1000 or more) [no]\n"
     "    --sample-blocks=1/N       record all events of every Nth block on average, and none of the "
     "others;\n"
     "                              steve estimates the numbers of all blocks from them [1/1]\n"
     "    --sample-seed=N           choose the same blocks in each run with the same N [another in each "
     "run]\n"
     "    --universe=at-exit|no     take a snapshot of all Lua objects when a state ends [no]\n"
     "    --universe=growing        take one each time the heap of a state has grown by half\n"
     "    --compress=N              zstd level of the trace, 1 to 19 [1]\n",
     LT_MAX_DEPTH);
}

static void print_debug_usage(void)
{
    VG_(printf)
    ("    --check-stacks=yes|no     walk Lua stacks even if they are in the cache, and stop if the result\n"
     "                              differs: slow [no]\n"
     "    --check-ir=yes|no         let Valgrind's translator check its input and its output [no]\n"
     "    --successor=yes|no        run the program even if it cannot be recorded; the recorder sets it for\n"
     "                              the programs that a recorded program starts [no]\n");
}

Bool lt_option_given(const HChar *option)
{
    SizeT length = VG_(strlen)(option);
    for (Word i = 0; i < VG_(sizeXA)(VG_(args_for_valgrind)); i++) {
        const HChar *arg = *(HChar **)VG_(indexXA)(VG_(args_for_valgrind), i);
        if (VG_(strncmp)(arg, option, length) == 0)
            return True;
    }
    return False;
}

/* A part of a recording needs room for the definitions and live blocks with which it begins. */
#define SMALLEST_TO_KEEP ((ULong)16 << 20)

static void refuse_if(Bool wrong, const HChar *message)
{
    if (!wrong)
        return;
    VG_(fmsg)("%s\nnothing was run\n", message);
    VG_(exit)(1);
}

void lt_options_check(void)
{
    const Bool keep = lt_options.keep_last;
    refuse_if(keep && lt_options.max_size < SMALLEST_TO_KEEP,
              "--keep=last needs --max-size=SIZE of 16m or more");
    refuse_if(keep && lt_options.text, "--keep=last cannot be given with --text=yes");
    refuse_if(lt_options.sample_blocks && lt_options.text, "--sample-blocks cannot be given with --text=yes");
    if (!lt_options.sample_seed)
        lt_options.sample_seed = random_seed();
    luajit_options = (struct luajit_options){.stack_depth = (UInt)lt_options.stack_depth,
                                             .heaps = lt_options.heap_luajit,
                                             .states = lt_options.lua,
                                             .check_stacks = lt_options.recheck,
                                             .snapshot_at_exit = lt_options.snapshot_at_exit,
                                             .snapshot_growing = lt_options.snapshot_growing};
}

void lt_options_for_successors(void)
{
    static const HChar *const option = "--successor=yes";
    if (!lt_options.successor)
        VG_(addToXA)(VG_(args_for_valgrind), &option);
}

void lt_options_init(void)
{
    VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
}
