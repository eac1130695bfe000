/* source_lines.c - switches Valgrind's reader of source lines off, by functions that replace its own (--wrap). (host
 * side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "pub_tool_debuginfo.h"

void __wrap_vgModuleLocal_read_debuginfo_dwarf3(const DebugInfo *object);
void __wrap_vgModuleLocal_new_dwarf3_reader(const DebugInfo *object);

/* Reads all source lines of an object when it is mapped. That takes a third of a program's start, and ends the
 * program ("I can't recover") where the debug information has a form that this Valgrind does not know: split
 * DWARF, type units, DWARF 5 of clang. The collector reads lines instead, of what is needed
 * (symbols/debuginfo.h). The object is the first argument; the others are not looked at. */
void __wrap_vgModuleLocal_read_debuginfo_dwarf3(const DebugInfo *object)
{
    (void)object;
}

/* Reads inlined functions and variables, which nothing here asks for, with the same danger. */
void __wrap_vgModuleLocal_new_dwarf3_reader(const DebugInfo *object)
{
    (void)object;
}
