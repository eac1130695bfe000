/* code_objects.c - find and identify the objects of code addresses.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * _dl_find_object of glibc 2.35 finds objects without a lock. An object is the one that is known if its link map, its
 * addresses and the first bytes of its .eh_frame_hdr are the same. Since even these can agree by chance, each dlclose
 * begins a new epoch, and a number is valid only in the epoch in which it was given.
 *
 * Records of objects are written once and then published by one atomic store.
 */
#define _GNU_SOURCE
#include "ljtrace/native/unwind/code_objects.h"
#include "ljtrace/frames/eh_sections.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/protocol/table.h"
#include <dlfcn.h>
#include <elf.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

enum { RECORDS = 4096, SLOTS = 2048, PROBES = 16, IDENTITY = 32 };

/* An object that was met. All but `number` is constant. */
struct record {
    const struct link_map *map;
    const void *begin, *end, *header, *dynamic;
    unsigned char identity[IDENTITY]; /* the first bytes of .eh_frame_hdr */
    _Atomic uint64_t number;          /* the epoch in the high half, the number in the low half */
};

LASTING_TABLE(struct record, s_records, RECORDS);
static _Atomic uint32_t s_used;
LASTING_TABLE(_Atomic(struct record *), s_slots, SLOTS); /* by the object's first address */
static _Atomic uint32_t s_epoch, s_last_number, s_mistakes;

/* The bytes of .eh_frame_hdr that are compared; those on its first page. */
static size_t identity_size(const void *header)
{
    const size_t left = KERNEL_PAGE - (size_t)((uintptr_t)header % KERNEL_PAGE);
    return left < IDENTITY ? left : IDENTITY;
}

static bool is_same(const struct record *r, const struct dl_find_object *found)
{
    return r->map == found->dlfo_link_map && r->begin == found->dlfo_map_start &&
           r->end == found->dlfo_map_end && r->header == found->dlfo_eh_frame &&
           r->dynamic == found->dlfo_link_map->l_ld &&
           memcmp(r->identity, found->dlfo_eh_frame, identity_size(found->dlfo_eh_frame)) == 0;
}

static struct record *make_record(const struct dl_find_object *found)
{
    if (atomic_load_explicit(&s_used, memory_order_relaxed) >= RECORDS)
        return NULL;
    const uint32_t n = atomic_fetch_add(&s_used, 1);
    if (n >= RECORDS)
        return NULL;
    struct record *r = &s_records[n];
    r->map = found->dlfo_link_map;
    r->begin = found->dlfo_map_start;
    r->end = found->dlfo_map_end;
    r->header = found->dlfo_eh_frame;
    r->dynamic = found->dlfo_link_map->l_ld;
    memcpy(r->identity, found->dlfo_eh_frame, identity_size(found->dlfo_eh_frame));
    atomic_store_explicit(&r->number, UINT64_MAX, memory_order_relaxed); /* of no epoch */
    return r;
}

/* The record of an object, made if it is new. NULL: there is no room. */
static struct record *record_of(const struct dl_find_object *found)
{
    const uint64_t hash = (uint64_t)(uintptr_t)found->dlfo_map_start / KERNEL_PAGE * 0x9e3779b97f4a7c15ULL;
    struct record *made = NULL;
    for (unsigned i = 0; i < PROBES;) {
        _Atomic(struct record *) *slot = &s_slots[((hash >> 40) + i) % SLOTS];
        struct record *r = atomic_load_explicit(slot, memory_order_acquire);
        if (r && is_same(r, found))
            return r;
        if (r && r->begin != found->dlfo_map_start) {
            i++;
            continue;
        }
        if (!made && !(made = make_record(found)))
            return NULL;
        if (atomic_compare_exchange_strong(slot, &r, made))
            return made;
        /* another thread was first: look at what it has put there */
    }
    return NULL;
}

/* The number of the object, a new one if the epoch is new. */
static uint32_t number_of(const struct dl_find_object *found)
{
    struct record *r = record_of(found);
    if (!r)
        return CODE_NO_NUMBER;
    uint64_t number = atomic_load_explicit(&r->number, memory_order_acquire);
    const uint32_t epoch = atomic_load_explicit(&s_epoch, memory_order_acquire);
    while (number != CODE_PERMANENT && number >> 32 != epoch) {
        if (atomic_load_explicit(&s_last_number, memory_order_relaxed) >= CODE_NUMBERS - 1)
            return CODE_NO_NUMBER;
        const uint64_t next = (uint64_t)epoch << 32 | (atomic_fetch_add(&s_last_number, 1) + 1);
        if (atomic_compare_exchange_strong(&r->number, &number, next))
            number = next;
    }
    return (uint32_t)number < CODE_NUMBERS ? (uint32_t)number : CODE_NO_NUMBER;
}

static bool find(uint64_t ip, struct dl_find_object *found)
{
    return _dl_find_object((void *)(uintptr_t)ip, found) == 0 && found->dlfo_eh_frame && found->dlfo_link_map;
}

uint32_t code_object_number(uint64_t ip)
{
    struct dl_find_object found;
    return find(ip, &found) ? number_of(&found) : CODE_NO_OBJECT;
}

/* Does this byte belong to the same object? */
static bool is_in(const struct dl_find_object *object, const uint8_t *at)
{
    struct dl_find_object other;
    return _dl_find_object((void *)(uintptr_t)at, &other) == 0 &&
           other.dlfo_link_map == object->dlfo_link_map;
}

/* Does a file begin here with its header? */
static bool is_header(const uint8_t *at)
{
    return memcmp(at, ELFMAG, SELFMAG) == 0;
}

/* Where the object's file begins in memory. If there are gaps between its segments, what was found is only one of them; a
 * library begins at its bias then, the program where the kernel has put its headers. NULL: not known. */
static const uint8_t *image_of(const struct dl_find_object *found)
{
    const uint8_t *bias = (const uint8_t *)found->dlfo_link_map->l_addr;
    const uint8_t *program = (const uint8_t *)(getauxval(AT_PHDR) & ~(uint64_t)(KERNEL_PAGE - 1));
    const uint8_t *const places[] = {found->dlfo_map_start, bias, program};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (is_in(found, places[i]) && is_header(places[i])) /* what is in an object's segments can be read */
            return places[i];
    return NULL;
}

uint32_t code_object_sections(uint64_t ip, struct eh_sections *s)
{
    struct dl_find_object found;
    if (!find(ip, &found))
        return CODE_NO_OBJECT;
    const struct eh_image image = {image_of(&found), (const uint8_t *)UINTPTR_MAX,
                                   found.dlfo_link_map->l_addr};
    if (!image.begin || !eh_sections_at(&image, found.dlfo_eh_frame, s) || !is_in(&found, s->header) ||
        !is_in(&found, s->frames_begin) || !is_in(&found, s->frames_end - 1))
        return CODE_NO_OBJECT;
    return number_of(&found);
}

bool code_object_is_linker(uint64_t ip)
{
    struct dl_find_object found;
    return _dl_find_object((void *)(uintptr_t)ip, &found) == 0 &&
           found.dlfo_link_map->l_addr == _r_debug.r_ldbase;
}

/* Make the object of an address permanent. */
static void make_permanent(uint64_t address)
{
    struct dl_find_object found;
    struct record *r = find(address, &found) ? record_of(&found) : NULL;
    if (r)
        atomic_store_explicit(&r->number, CODE_PERMANENT, memory_order_release);
}

/* The objects that are loaded when the program starts are never unmapped. This one is among them if it comes before libc
 * in the list; otherwise it was loaded by dlopen, perhaps like others in the list. */
static __attribute__((constructor)) void find_permanent_objects(void)
{
    struct dl_find_object self, libc;
    bool self_seen = false;
    if (!tables_are_mapped() || !find((uint64_t)(uintptr_t)&find_permanent_objects, &self) ||
        !find((uint64_t)(uintptr_t)&gnu_get_libc_version, &libc))
        return;
    for (const struct link_map *map = _r_debug.r_map; map && map != libc.dlfo_link_map; map = map->l_next)
        self_seen |= map == self.dlfo_link_map;
    make_permanent((uint64_t)(uintptr_t)&gnu_get_libc_version);
    make_permanent((uint64_t)(uintptr_t)&_dl_find_object);
    if (_r_debug.r_map)
        make_permanent((uint64_t)(uintptr_t)_r_debug.r_map->l_ld);
    for (const struct link_map *map = self_seen ? _r_debug.r_map : NULL; map; map = map->l_next)
        make_permanent((uint64_t)(uintptr_t)map->l_ld);
}

void code_objects_closed(void)
{
    struct dl_find_object found;
    const uint32_t used = atomic_load(&s_used);
    atomic_fetch_add(&s_epoch, 1);
    /* an object that a constructor opened before ours ran may have been thought permanent */
    for (uint32_t i = 0; i < used && i < RECORDS; i++) {
        struct record *r = &s_records[i];
        if (atomic_load_explicit(&r->number, memory_order_acquire) == CODE_PERMANENT && r->begin &&
            !(find((uint64_t)(uintptr_t)r->begin, &found) && is_same(r, &found))) {
            atomic_store(&r->number, UINT64_MAX);
            atomic_fetch_add(&s_mistakes, 1);
        }
    }
}

uint32_t code_objects_mistakes(void)
{
    return atomic_load_explicit(&s_mistakes, memory_order_acquire);
}
