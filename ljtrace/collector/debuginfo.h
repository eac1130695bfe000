/* debuginfo.h - source lines of code addresses, from the objects' files.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The tool lets Valgrind read none: that would take a third of the time that a program takes to start, and ends
 * the program where the debug information has a form that Valgrind does not know (ljtrace/tool/base/overrides.c). The collector, on
 * another core, reads with elfutils' libdw those of the compilation units in which code of frames lies. Debug
 * information in a file of its own is found where debuggers find it, by build id or .gnu_debuglink; never by
 * network.
 *
 * A file of the system is opened when the first line in it is asked for, and again when it has become another
 * file. Any other is opened when the program maps it (debuginfo_mapped), as it may be removed or replaced while
 * the program runs; the replaced one is forgotten when the next is mapped by the same name. A file stays open
 * if it has lines. Names of functions are the tool's: it has the symbols.
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
/* The program has mapped the file that is now found by `path`; later it is asked for as `object`. */
void debuginfo_mapped(struct debuginfo *d, const char *object, const char *path);
/* The line of an address in the object whose file has this path, as the file's own headers count addresses.
 * False if it is not known. */
bool debuginfo_find(struct debuginfo *d, const char *object, uint64_t address, struct debuginfo_line *line);
/* For each object whose debug information could not be read: its name, and why, in English. */
void debuginfo_problems(const struct debuginfo *d,
                        void (*report)(void *ctx, const char *object, const char *why), void *ctx);

#endif
