/* source_lines.c - switches Valgrind's reader of source lines off, by functions that replace its own (--wrap). (host
 * side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/tool/base/system_files.h"
#include "ljtrace/tool/ring/records.h"
#include "pub_tool_debuginfo.h"

enum { NAME_LIMIT = 4000 };

void __wrap_vgModuleLocal_read_debuginfo_dwarf3(const DebugInfo *object);
void __wrap_vgModuleLocal_new_dwarf3_reader(const DebugInfo *object);

/* An object file with source lines was mapped. Have the collector open it, and wait until it has. */
static void object_mapped(const HChar *path)
{
    static HChar at[NAME_LIMIT];
    if (!lt_ring || !lt_ring_alive() || lt_system_has(path))
        return;
    lt_system_path(at, sizeof at, path);
    RING_PUT(loaded, .object = lt_text_of(path, VG_(strnlen)(path, NAME_LIMIT)), .path = lt_text(at));
    lt_ring_drain(); /* the collector has opened the file when the ring is drained */
}

/* Reads all source lines of an object when it is mapped. That takes a third of a program's start, and ends the
 * program ("I can't recover") where the debug information has a form that this Valgrind does not know: split
 * DWARF, type units, DWARF 5 of clang. The collector reads lines instead, of what is needed
 * (symbols/debuginfo.h). The object is the first argument; the others are not looked at. */
void __wrap_vgModuleLocal_read_debuginfo_dwarf3(const DebugInfo *object)
{
    object_mapped(VG_(DebugInfo_get_filename)(object));
}

/* Reads inlined functions and variables, which nothing here asks for, with the same danger. */
void __wrap_vgModuleLocal_new_dwarf3_reader(const DebugInfo *object)
{
}
