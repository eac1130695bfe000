/* requests.c - client requests and monitor commands. (see requests.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The instrumented code is the same in both cases; the collector drops the accesses that were made while
 * recording was off. At each change a mark of the tool's own is written into the trace. Names that the
 * program passes are copied from its memory, as far as it is readable.
 */
#include "ljtrace/valgrind/session/requests.h"
#include "ljtrace/ljtrace.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/base/options.h"
#include "ljtrace/luajit/core/states.h"
#include "ljtrace/luajit/heap/allocator.h"
#include "ljtrace/luajit/snapshot/snapshot.h"
#include "ljtrace/luajit/state/types.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/heaps/malloc.h"
#include "ljtrace/valgrind/heaps/pools.h"
#include "ljtrace/valgrind/instrument/stack_sampler.h"
#include "ljtrace/valgrind/luajit/allocator_calls.h"
#include "ljtrace/valgrind/luajit/images.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/session/child.h"
#include "ljtrace/valgrind/syscalls/exec.h"
#include "memtrace/memtrace.h"
#include "pub_tool_clreq.h"
#include "pub_tool_gdbserver.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_tooliface.h"

enum { NAME_MAX_BYTES = 1000, COMMAND_MAX_BYTES = 1100 };

static Bool s_on = True;

static void put_mark(const HChar *name)
{
    HOST_PUT(mark, .instructions = lt_ring->instructions,
             .name = host_text_of(name, VG_(strnlen)(name, NAME_MAX_BYTES)));
}

static void turn(Bool on)
{
    if (on == s_on)
        return;
    s_on = on;
    HOST_PUT(switch, .on = on);
    put_mark(on ? "ljtrace: on" : "ljtrace: off");
}

void lt_requests_start(void)
{
    if (lt_options.start_off)
        turn(False);
}

static const HChar *accesses(void)
{
    if (lt_ring->full)
        return "dropped since --max-size was reached";
    return s_on ? "on" : "off";
}

static void print_status(void)
{
    if (lt_ring_alive())
        VG_(gdb_printf)
    ("recording to %s, accesses %s\n%s\n", lt_child_name(), accesses(), lt_ring_report(False));
    else VG_(gdb_printf)("recording has ended\n");
    if (lt_child_children() && !lt_exec_traces_children())
        VG_(gdb_printf)
    ("this process has forked %u children, which have files of their own; vgdb reaches them only if the\n"
     "recording is started with --trace-children=yes\n",
     lt_child_children());
}

/* Write all objects of all Lua states and all events so far into the file. Returns a line about the state of
 * the recording, "" if it has ended. */
static const HChar *take_snapshot(const HChar *name)
{
    if (!lt_ring_alive())
        return "";
    lt_snapshot_take(name);
    return lt_ring_report(True);
}

static void print_snapshot(const HChar *name)
{
    if (!lt_ring_alive()) {
        print_status();
        return;
    }
    UInt waiting = lt_snapshot_request(name && *name ? name : "monitor");
    VG_(gdb_printf)("%s: %s\n", lt_child_name(), lt_ring_report(True));
    if (waiting)
        VG_(gdb_printf)
    ("%u Lua states are busy with an object: their snapshots are taken when they allocate next\n", waiting);
}

static void print_commands(void)
{
    VG_(gdb_printf)
    ("ljtrace monitor commands:\n"
     "  status      output file, whether accesses are recorded, events, live blocks, bytes written\n"
     "  on, off     record accesses, or only heap events\n"
     "  mark NAME   write a named mark into the trace\n"
     "  snapshot [NAME]  take a snapshot of all Lua objects; write it and all events so far\n"
     "  stop        end the recording; the program runs on\n");
}

static Bool is(const HChar *word, const HChar *name)
{
    return word && VG_(strcmp)(word, name) == 0;
}

static Bool needs_recording(const HChar *word)
{
    static const HChar *const names[] = {"on", "off", "mark", "snapshot", "stop"};
    for (UInt i = 0; i < sizeof names / sizeof *names; i++)
        if (is(word, names[i]))
            return True;
    return False;
}

static void obey_mark(const HChar *name)
{
    if (name && *name)
        put_mark(name);
    else
        VG_(gdb_printf)("mark needs a NAME\n");
}

/* Run a command of vgdb or gdb. Returns false if it is not a command of this tool. */
static Bool obey(const HChar *text)
{
    HChar copy[COMMAND_MAX_BYTES], *rest;
    VG_(strncpy)(copy, text, sizeof copy - 1);
    copy[sizeof copy - 1] = 0;
    const HChar *word = VG_(strtok_r)(copy, " ", &rest);
    if (is(word, "help"))
        print_commands();
    else if (is(word, "status") || (needs_recording(word) && !lt_ring_alive()))
        print_status();
    else if (is(word, "on") || is(word, "off"))
        turn(is(word, "on"));
    else if (is(word, "mark"))
        obey_mark(rest);
    else if (is(word, "snapshot"))
        print_snapshot(rest);
    else if (is(word, "stop")) {
        lt_types_settle_all();
        lt_snapshot_take_due();
        lt_ring_finish(MT_ENDING_STOPPED);
    } else
        return False;
    return True;
}

/* Copy the text at an address that the program passed; "" if it is not readable. */
static const HChar *name_at(UWord addr)
{
    static HChar name[NAME_MAX_BYTES + 1];
    program_text(addr, name, sizeof name);
    return name;
}

static void take_named_snapshot(UWord addr)
{
    const HChar *name = name_at(addr);
    take_snapshot(*name ? name : "snapshot");
}

static void take_layout(const UWord *args)
{
    struct lua_layout layout;
    if (program_read(args[1], &layout, sizeof layout))
        lt_vm_layout(&layout, (UInt)args[2], lt_image_file((UInt)args[2]));
}

static Bool on_request(ThreadId tid, UWord *args, UWord *ret)
{
    *ret = 0;
    switch (args[0]) {
    case LJTRACE_REQUEST_MARK:
        lt_types_settle_all();
        put_mark(name_at(args[1]));
        return True;
    case LJTRACE_REQUEST_SWITCH:
        turn(args[1] != 0);
        return True;
    case LJTRACE_REQUEST_SNAPSHOT:
        take_named_snapshot(args[1]);
        return True;
    case LJTRACE_REQUEST_HEAP_CLOSING:
        lt_snapshot_state_ends(args[1]);
        return True;
    case LJTRACE_REQUEST_WATCH_ALLOCATOR:
        lt_lua_watch(args[1], (enum lua_allocator)args[2], (UInt)args[3]);
        *ret = lt_options.lua;
        return True;
    case LJTRACE_REQUEST_HEAP_CLOSED:
        lt_lua_state_closed(lt_lua_heap(args[1]), args[2], args[3] != 0);
        return True;
    case LJTRACE_REQUEST_HEAP_MOVED:
        lt_lua_heap_moved(lt_lua_heap(args[1]), lt_lua_heap(args[2]));
        return True;
    case LJTRACE_REQUEST_PEEK:
        *ret = program_read(args[1], (void *)args[2], args[3]) ? args[3] : 0;
        return True;
    case LJTRACE_REQUEST_LUA_LAYOUT:
        take_layout(args);
        return True;
    case LJTRACE_REQUEST_LUA_IMAGE:
        *ret = args[2] ? lt_image_add(args[1]) : lt_image_of(args[1]);
        return True;
    case LJTRACE_REQUEST_LUA_FUNCTIONS:
        lt_image_functions((UInt)args[1], (const HChar *const *)args[2], (UInt)args[3], (Addr *)args[4]);
        return True;
    case LJTRACE_REQUEST_LUA_STATE:
        lt_vm_announce(args[1], lt_lua_heap(args[2]), (UInt)args[3]);
        return True;
    case LJTRACE_REQUEST_HIDE:
        lt_hide(tid, args[1] != 0);
        lt_stack_sample_pause(args[1] != 0);
        return True;
    case LJTRACE_REQUEST_NEW:
        *ret = (UWord)lt_heap_new(tid, args[1], args[2], (UInt)args[3]);
        return True;
    case LJTRACE_REQUEST_MADE_BY:
        lt_heap_made_by(tid, args[1], (UInt)args[2], (UInt)args[3]);
        return True;
    case LJTRACE_REQUEST_RESIZE:
        *ret = (UWord)lt_heap_resize(tid, args[1], args[2], args[3], args[4] != 0);
        return True;
    case LJTRACE_REQUEST_FREE:
        lt_heap_free(tid, args[1]);
        return True;
    case LJTRACE_REQUEST_OWNS:
        *ret = lt_heap_owns(args[1]);
        return True;
    case LJTRACE_REQUEST_BYTES:
        *ret = lt_heap_bytes(args[1]);
        return True;
    case VG_USERREQ__GDB_MONITOR_COMMAND:
        *ret = obey((const HChar *)args[1]);
        return *ret != 0;
    default:
        return lt_pools_request(tid, args, ret);
    }
}

void lt_requests_init(void)
{
    VG_(needs_client_requests)(on_request);
}
