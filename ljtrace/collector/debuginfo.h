/* debuginfo.h - source lines of code addresses, from the objects' files.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind reads all lines of an object when the program maps it, of libc's 1,800 compilation units as well:
 * a third of the time that a program takes to start. Most are never asked for. So the tool does without them
 * for the system's files (lt_core.c), and the collector, on another core, reads those of the compilation
 * units in which code lies whose frame is told, with elfutils' libdw. Debug information in a file of its own
 * is found where debuggers find it, by build id or .gnu_debuglink; never by network.
 *
 * A file is opened when the first frame of its object is told, and anew when it has become another. It stays
 * open if it has lines. One that cannot be read has none. Names of functions are the tool's: it has the
 * symbols.
 */
#ifndef COLLECTOR_DEBUGINFO_H
#define COLLECTOR_DEBUGINFO_H

#include <stdbool.h>
#include <stdint.h>

struct debuginfo;

struct debuginfo_line {
    const char *file; /* lives as long as the struct debuginfo */
    uint32_t line;
};

/* NULL when out of memory. */
struct debuginfo *debuginfo_new(void);
void debuginfo_free(struct debuginfo *d);
/* The line of an address in the object whose file has this path, as the file's own headers count addresses.
 * False if it is not known. */
bool debuginfo_find(struct debuginfo *d, const char *object, uint64_t address, struct debuginfo_line *line);

#endif
