/* debuginfo.h - find the source lines and inlined functions of code addresses in the objects' debug information.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind does not read debug information here. Reading it would take a third of the time that a program
 * takes to start, and Valgrind would end the program where it does not know the form of the debug information
 * (ljtrace/valgrind/base/core.c). Instead the collector, which runs on another core, reads it with elfutils'
 * libdw, and only that of the compilation units that contain code of frames. Separate debug files are found
 * where debuggers find them, by build id or .gnu_debuglink, but never by network.
 *
 * The caller says which files are meant: a file that it has opened (debuginfo_add), which may be removed or replaced
 * meanwhile, or whatever is at a path now (debuginfo_at), which is opened again when it has changed. Nothing is read
 * before the first look-up, and of a large compressed .debug_info only the bytes up to the units that are needed.
 *
 * While a program is recorded under Valgrind, the names of functions that are not inlined come from the tool, which has the
 * symbols.
 */
#ifndef LJTRACE_SYMBOLS_DEBUGINFO_H
#define LJTRACE_SYMBOLS_DEBUGINFO_H

#include <stddef.h>
#include <stdint.h>

struct debuginfo;
/* An object file. Valid as long as the struct debuginfo. */
struct debuginfo_object;

/* A function at a code address. */
struct debuginfo_frame {
    const char *function; /* of a function that was inlined, "" = not known; NULL = it was not inlined */
    const char *file;     /* NULL = not known */
    uint32_t line;        /* 0 = not known */
};

/* Return NULL when out of memory. */
struct debuginfo *debuginfo_new(void);
/* Free all that debuginfo_new and the look-ups allocated. */
void debuginfo_free(struct debuginfo *d);
/* The object of a file that is open, and which is closed by this, now or later. path: its name, beside which separate debug
 * files may be; fd: -1 = there is no such file, so nothing is found in it. The same file with the same name is the same
 * object. Returns NULL when out of memory. */
struct debuginfo_object *debuginfo_add(struct debuginfo *d, const char *path, int fd);
/* From now on each look-up of lines has this problem, in English. */
void debuginfo_lacks(struct debuginfo_object *object, const char *why);
/* The object that is at a path whenever something is looked up. Returns NULL when out of memory. */
struct debuginfo_object *debuginfo_at(struct debuginfo *d, const char *path);
/* Find the functions whose code is at an address, innermost first: those that were inlined there, then the one that
 * they were inlined in. The innermost has the line of the address, each other one the line of its call. The address is
 * as in the ELF headers of the object's file. Returns the number of functions, 0 if the object has no debug information
 * for the address. *frames is valid until the next call. */
size_t debuginfo_find(struct debuginfo *d, struct debuginfo_object *object, uint64_t address,
                      const struct debuginfo_frame **frames);
/* The name of the function that contains an address, demangled, from the symbol table of the object's file or of its
 * separate debug file. NULL = not known. The name is valid until the next call. */
const char *debuginfo_function(struct debuginfo *d, struct debuginfo_object *object, uint64_t address);
/* Call `report` for each object whose debug information, or a part of it, could not be read, with the object's name
 * and the reason in English. */
void debuginfo_problems(const struct debuginfo *d,
                        void (*report)(void *ctx, const char *object, const char *why), void *ctx);

#endif
