/* modules.h - reports which object files are mapped, and from when to when.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_STACKS_MODULES_H
#define LJTRACE_VALGRIND_STACKS_MODULES_H

#include "pub_tool_basics.h"

/* Report all object files that are mapped and were not reported. Call it when recording begins, and when Valgrind has
 * read an object file. */
void lt_modules_update(void);
/* The address in its file of code that Valgrind knows no object for; 0 = it is from no file. The object, of that name, is
 * reported. */
Addr lt_module_address(Addr code, const HChar *name);
/* Memory is unmapped: report the object files whose code begins there. */
void lt_modules_unmapped(Addr a, SizeT len);

/* -- the object file in memory -- */

/* Valgrind does not know all objects: it reads each by its path, which some do not have. */

struct lt_mapped_object {
    Addr begin, end; /* from the first part of the file to the end of the last */
    Addr bias;       /* address in memory less address in the file */
};

/* Find the object that this code was mapped from. Its first page is readable. False: there is none. */
Bool lt_mapped_object_of(Addr code, struct lt_mapped_object *object);

/* -- files of the system -- */

/* For files that are not, the program waits until the collector has opened them (protocol/system_files.h). The collector
 * sees the file system as it was when the program started. If the program has changed its root or its mounts since then,
 * it may mean other files by the same paths, so from then on it waits for all. */

/* Call before each system call. */
void lt_system_before(UInt number);

#endif
