/* functions.c - the functions in the symbol table of an object file, by address.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/symbols/functions.h"
#include "ljtrace/symbols/nesting.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct symbol {
    uint64_t from, to; /* to: the first address after the code; 0 = the symbol has no size */
    const char *name;
    int rank; /* of names for one address, the one with the least rank is used */
};

struct functions {
    struct symbol *symbols;
    uint32_t count;
    struct nesting code; /* addresses; values are indexes of symbols */
};

/* Can the symbol be the name of code? Symbols without a type can, because labels in assembly code have none. */
static bool is_code(const GElf_Sym *symbol, GElf_Word section)
{
    const int type = GELF_ST_TYPE(symbol->st_info);
    return section != SHN_UNDEF && section != SHN_ABS &&
           (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

static int rank_of(const GElf_Sym *symbol)
{
    switch (GELF_ST_BIND(symbol->st_info)) {
    case STB_GLOBAL:
        return 0;
    case STB_WEAK:
        return 1;
    default:
        return 2;
    }
}

/* Order of symbols: by address; at one address the one to use first, which has a size if any of them has. */
static int by_address(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if ((x->to == 0) != (y->to == 0))
        return x->to == 0 ? 1 : -1;
    if (x->rank != y->rank)
        return x->rank - y->rank;
    return strcmp(x->name, y->name);
}

static void read_symbols(struct functions *f, Dwfl_Module *module, int count)
{
    for (int i = 1; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr address;
        GElf_Word section;
        const char *name = dwfl_module_getsym_info(module, i, &symbol, &address, &section, NULL, NULL);
        if (name && *name && is_code(&symbol, section))
            f->symbols[f->count++] = (struct symbol){address, symbol.st_size ? address + symbol.st_size : 0,
                                                     name, rank_of(&symbol)};
    }
}

/* Keep the first symbol of each address. */
static void drop_aliases(struct functions *f)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f->count; i++)
        if (kept == 0 || f->symbols[kept - 1].from != f->symbols[i].from)
            f->symbols[kept++] = f->symbols[i];
    f->count = kept;
}

/* A symbol without a size extends to the next one; the last of all is taken for one byte long. */
static bool add_ranges(struct functions *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        const struct symbol *s = &f->symbols[i];
        const uint64_t next = i + 1 < f->count ? s[1].from : s->from + 1;
        if (!nesting_add(&f->code, s->from, s->to > s->from ? s->to : next, i))
            return false;
    }
    nesting_sort(&f->code);
    return true;
}

struct functions *functions_new(Dwfl_Module *module)
{
    const int count = dwfl_module_getsymtab(module);
    struct functions *f = count > 0 ? calloc(1, sizeof *f) : NULL;
    if (!f)
        return NULL;
    f->symbols = malloc((size_t)count * sizeof *f->symbols);
    if (f->symbols) {
        read_symbols(f, module, count);
        if (f->count)
            qsort(f->symbols, f->count, sizeof *f->symbols, by_address);
        drop_aliases(f);
        if (add_ranges(f))
            return f;
    }
    functions_free(f);
    return NULL;
}

void functions_free(struct functions *f)
{
    if (!f)
        return;
    nesting_free(&f->code);
    free(f->symbols);
    free(f);
}

const char *functions_find(const struct functions *f, uint64_t address)
{
    const uint32_t found = nesting_find(&f->code, address);
    return found == NESTING_NONE ? NULL : f->symbols[found].name;
}
