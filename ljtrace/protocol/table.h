/* table.h - large tables: static in the Valgrind tool, mapped in the libraries inside the program.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A garbage collector that looks for pointers in all writable segments of all objects, as Boehm's does, would take the
 * static tables of a library for data of the program: it would search them, and keep what they seem to point to. A library
 * also cannot return its segments to the kernel. So where LJTRACE_MAPS_TABLES is defined, a table is a pointer to memory
 * that ljtrace/protocol/tables.c maps: before all other code of the library runs if LJTRACE_MAPS_TABLES_FIRST is defined,
 * else when it is called.
 *
 * TABLE(type, name, count) defines a static table of `count` elements, which are 0 at first. In the program it is there,
 * and 0 at first, in each recording; only code that has locked the ring may use it. LASTING_TABLE is one that keeps its
 * contents and that any code may use. TABLE_BYTES(name) is its size.
 */
#ifndef LJTRACE_PROTOCOL_TABLE_H
#define LJTRACE_PROTOCOL_TABLE_H

#ifdef LJTRACE_MAPS_TABLES

#include <stdbool.h>
#include <stddef.h>

/* The pointer to a table, and the size of the table. */
struct table {
    void *pointer;
    size_t bytes;
};

#define TABLE_IN(section_, type, name, count)                                                                \
    static __typeof__(type) *name;                                                                           \
    static const struct table name##_table                                                                   \
        __attribute__((section(section_), used)) = {&name, sizeof(type) * (count)}
#define TABLE(type, name, count) TABLE_IN("ljtrace_tables", type, name, count)
#define LASTING_TABLE(type, name, count) TABLE_IN("ljtrace_lasting", type, name, count)
#define TABLE_BYTES(name) (name##_table.bytes)

/* Map the tables, unless that was done. */
void tables_map(void);
/* Are the tables mapped? If there was no memory for them, no table may be used. */
bool tables_are_mapped(void);
/* The recording has ended: no table may be used until tables_map maps them anew, except lasting ones. */
void tables_unmap(void);
/* Where the lasting tables are, or the others, and their bytes. */
size_t tables_place(bool lasting, const void **at);
/* Bytes of the pages of memory that were touched, which begins with a page; and of the pages of all tables. These make system
 * calls. */
size_t memory_touched(const void *from, size_t bytes);
size_t tables_touched(void);

#else

#define TABLE(type, name, count) static __typeof__(type) name[count]
#define LASTING_TABLE(type, name, count) TABLE(type, name, count)
#define TABLE_BYTES(name) (sizeof name)
#define tables_are_mapped() 1

#endif

#endif
