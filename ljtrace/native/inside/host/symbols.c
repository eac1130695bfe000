/* symbols.c - looks up a function that an object exports.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/native/inside/host/symbols.h"
#include <stdint.h>
#include <string.h>

/* The tables of an object. */
struct tables {
    const ElfW(Sym) * symbol;
    const char *text;
    const uint32_t *gnu_hash, *hash; /* NULL = there is none */
};

/* The dynamic linker has relocated the addresses in most objects. */
static const void *address(const struct link_map *object, ElfW(Addr) a)
{
    return (const void *)(a < object->l_addr ? a + object->l_addr : a);
}

static struct tables tables_of(const struct link_map *object)
{
    struct tables t = {0};
    for (const ElfW(Dyn) *d = object->l_ld; d && d->d_tag != DT_NULL; d++) {
        const void *at = address(object, d->d_un.d_ptr);
        if (d->d_tag == DT_SYMTAB)
            t.symbol = at;
        else if (d->d_tag == DT_STRTAB)
            t.text = at;
        else if (d->d_tag == DT_GNU_HASH)
            t.gnu_hash = at;
        else if (d->d_tag == DT_HASH)
            t.hash = at;
    }
    return t;
}

static int is_function(const struct tables *t, uint32_t i, const char *name)
{
    const ElfW(Sym) *s = &t->symbol[i];
    return s->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s->st_info) == STT_FUNC &&
           strcmp(t->text + s->st_name, name) == 0;
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (uint8_t)*name;
    return h;
}

/* Index of the symbol; 0 = there is none. */
static uint32_t by_gnu_hash(const struct tables *t, const char *name)
{
    const uint32_t buckets = t->gnu_hash[0], first = t->gnu_hash[1], words = t->gnu_hash[2],
                   h = gnu_hash_of(name);
    const uint32_t *bucket = t->gnu_hash + 4 + 2 * words, *chain = bucket + buckets;
    uint32_t i = bucket[h % buckets];
    if (i < first)
        return 0;
    for (;; i++) {
        if ((chain[i - first] | 1) == (h | 1) && is_function(t, i, name))
            return i;
        if (chain[i - first] & 1)
            return 0;
    }
}

/* The table's second word is the number of symbols. */
static uint32_t by_hash(const struct tables *t, const char *name)
{
    for (uint32_t i = 1; i < t->hash[1]; i++)
        if (is_function(t, i, name))
            return i;
    return 0;
}

const ElfW(Sym) * host_symbol_entry(const struct link_map *object, const char *name)
{
    const struct tables t = tables_of(object);
    if (!t.symbol || !t.text || (!t.gnu_hash && !t.hash))
        return NULL;
    const uint32_t i = t.gnu_hash ? by_gnu_hash(&t, name) : by_hash(&t, name);
    return i ? &t.symbol[i] : NULL;
}

void *host_symbol(const struct link_map *object, const char *name)
{
    const ElfW(Sym) *s = host_symbol_entry(object, name);
    return s ? (void *)(object->l_addr + s->st_value) : NULL;
}

/* Symbols that are not defined are before those of the GNU hash table. */
bool host_symbol_is_needed(const struct link_map *object, const char *name)
{
    const struct tables t = tables_of(object);
    const uint32_t end = t.gnu_hash ? t.gnu_hash[1] : t.hash ? t.hash[1] : 0;
    for (uint32_t i = 1; t.symbol && t.text && i < end; i++)
        if (t.symbol[i].st_shndx == SHN_UNDEF && strcmp(t.text + t.symbol[i].st_name, name) == 0)
            return true;
    return false;
}
