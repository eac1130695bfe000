/* symbols.h - the functions of an object.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_HOST_SYMBOLS_H
#define LJTRACE_NATIVE_HOST_SYMBOLS_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* The function of this name in this object; NULL = it exports none. dlsym would also search the objects that this one
 * needs, take a lock and allocate. */
void *host_symbol(const struct link_map *object, const char *name);
/* Does the object need a function of this name of another one? */
bool host_symbol_is_needed(const struct link_map *object, const char *name);
/* Its symbol; NULL = it exports none. */
const ElfW(Sym) * host_symbol_entry(const struct link_map *object, const char *name);

/* The address in memory of a variable that the object exports; 0 = it exports none of this name. */
uint64_t host_symbol_variable(const struct link_map *object, const char *name);

/* -- what an object does not export -- */

/* The table .symtab also has the functions and variables that an object does not export. Stripped files have none. */

enum file_symbol_kind { FILE_FUNCTIONS, FILE_VARIABLES };
/* A function or a variable. is_local: it is known in the object only; the table does not say whether it is static or hidden. */
struct file_symbol {
    const char *name;
    uint64_t address; /* in memory */
    uint64_t size;
    bool is_local;
};

typedef void file_symbol_seen(const struct file_symbol *s, void *any);

/* Call `see` for each function, or variable, in the symbol table of the object's file. path: of the file. Variables of threads
 * have no address. */
void file_symbols_each(const struct link_map *object, const char *path, enum file_symbol_kind kind,
                       file_symbol_seen *see, void *any);
/* Is the code at this address in memory that of the file? The file may have been replaced. */
bool file_has_code(const struct link_map *object, const char *path, uint64_t address);

#endif
