/* file_symbols.h - the functions of an object by its symbol table, which is in its file only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The table .symtab also has the functions that an object does not export. Stripped files have none.
 */
#ifndef LJTRACE_NATIVE_HOST_FILE_SYMBOLS_H
#define LJTRACE_NATIVE_HOST_FILE_SYMBOLS_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* A function. is_local: it is known in the object only; the table does not say whether it is static or hidden. */
struct file_symbol {
    const char *name;
    uint64_t address; /* in memory */
    uint64_t size;
    bool is_local;
};

typedef void file_symbol_seen(const struct file_symbol *s, void *any);

/* Call `see` for each function in the symbol table of the object's file. path: of the file. */
void file_symbols_each(const struct link_map *object, const char *path, file_symbol_seen *see, void *any);
/* Is the code at this address in memory that of the file? The file may have been replaced. */
bool file_has_code(const struct link_map *object, const char *path, uint64_t address);

#endif
