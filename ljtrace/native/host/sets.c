/* sets.c - Valgrind's ordered sets and hash tables, for the code that is shared with the tool.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The sets hold the prototypes of a program and the lines of a chunk, which are few and change rarely: a sorted array of
 * pointers. The key is an element's first word.
 */
#include "pub_tool_basics.h"
#include "pub_tool_hashtable.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_oset.h"

enum { CHAINS = 1024 };

struct _OSet {
    void **element;
    UInt count, room;
};

OSet *VG_(OSetGen_Create)(PtrdiffT key_offset, OSetCmp_t compare, Alloc_Fn_t allocate, const HChar *name,
                          Free_Fn_t release)
{
    (void)key_offset, (void)compare, (void)allocate, (void)release;
    return VG_(calloc)(name, 1, sizeof(OSet));
}

void VG_(OSetGen_Destroy)(OSet *set)
{
    for (UInt i = 0; i < set->count; i++)
        VG_(free)(set->element[i]);
    VG_(free)(set->element);
    VG_(free)(set);
}

static Word by_first_word(const void *key, const void *element)
{
    UWord a = *(const UWord *)key, b = *(const UWord *)element;
    return a < b ? -1 : a > b;
}

/* The index of the first element that is not below the key. */
static UInt place_of(const OSet *set, const void *key, OSetCmp_t compare)
{
    UInt low = 0, high = set->count;
    while (low < high) {
        UInt middle = (low + high) / 2;
        if (compare(key, set->element[middle]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void *VG_(OSetGen_LookupWithCmp)(OSet *set, const void *key, OSetCmp_t compare)
{
    UInt i = place_of(set, key, compare);
    return i < set->count && compare(key, set->element[i]) == 0 ? set->element[i] : NULL;
}

void *VG_(OSetGen_Lookup)(const OSet *set, const void *key)
{
    UInt i = place_of(set, key, by_first_word);
    return i < set->count && by_first_word(key, set->element[i]) == 0 ? set->element[i] : NULL;
}

void *VG_(OSetGen_AllocNode)(const OSet *set, SizeT n)
{
    (void)set;
    return VG_(calloc)("ljtrace.node", 1, n);
}

void VG_(OSetGen_FreeNode)(const OSet *set, void *element)
{
    (void)set;
    VG_(free)(element);
}

void VG_(OSetGen_Insert)(OSet *set, void *element)
{
    UInt at = place_of(set, element, by_first_word);
    if (set->count == set->room) {
        set->room = 2 * set->room + 32;
        set->element = VG_(realloc)("ljtrace.set", set->element, set->room * sizeof *set->element);
    }
    for (UInt i = set->count++; i > at; i--)
        set->element[i] = set->element[i - 1];
    set->element[at] = element;
}

void *VG_(OSetGen_Remove)(OSet *set, const void *key)
{
    UInt at = place_of(set, key, by_first_word);
    if (at == set->count || by_first_word(key, set->element[at]) != 0)
        return NULL;
    void *removed = set->element[at];
    set->count--;
    for (UInt i = at; i < set->count; i++)
        set->element[i] = set->element[i + 1];
    return removed;
}

struct _VgHashTable {
    VgHashNode *chain[CHAINS];
};

static VgHashNode **chain_of(VgHashTable *table, UWord key)
{
    return &table->chain[(key * 0x9e3779b97f4a7c15ULL) >> 54];
}

VgHashTable *VG_(HT_construct)(const HChar *name)
{
    return VG_(calloc)(name, 1, sizeof(VgHashTable));
}

void VG_(HT_add_node)(VgHashTable *table, void *node)
{
    VgHashNode *n = node, **chain = chain_of(table, n->key);
    n->next = *chain;
    *chain = n;
}

void *VG_(HT_remove)(VgHashTable *table, UWord key)
{
    VgHashNode **at = chain_of(table, key);
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    VgHashNode *found = *at;
    if (found)
        *at = found->next;
    return found;
}

void VG_(HT_destruct)(VgHashTable *table, void (*release)(void *))
{
    for (UInt i = 0; i < CHAINS; i++)
        for (VgHashNode *n = table->chain[i], *next; n; n = next) {
            next = n->next;
            release(n);
        }
    VG_(free)(table);
}
