/* frame_rules.c - pack the rules of .eh_frame and keep them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An entry of the cache is two words, which threads read and write without a lock: the rule, and the code address
 * combined with the rule by exclusive or. If two threads write an entry at once, the words of different writers do not
 * give the address, and the entry is not used.
 */
#define _GNU_SOURCE
#include "ljtrace/native/unwind/frame_rules.h"
#include "ljtrace/frames/eh_frame.h"
#include "ljtrace/frames/frame_pointer.h"
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

/* -- the object file of a code address -- */

/* _dl_find_object of glibc 2.35 finds objects without a lock. An object is the one that is known if its link map, its
 * addresses and the first bytes of its .eh_frame_hdr are the same. Since even these can agree by chance, each dlclose
 * begins a new epoch, and a number is valid only in the epoch in which it was given.
 *
 * Records of objects are written once and then published by one atomic store. */

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

static bool object_find(uint64_t ip, struct dl_find_object *found)
{
    return _dl_find_object((void *)(uintptr_t)ip, found) == 0 && found->dlfo_eh_frame && found->dlfo_link_map;
}

uint32_t code_object_number(uint64_t ip)
{
    struct dl_find_object found;
    return object_find(ip, &found) ? number_of(&found) : CODE_NO_OBJECT;
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
    if (!object_find(ip, &found))
        return CODE_NO_OBJECT;
    const struct eh_image image = {image_of(&found), (const uint8_t *)UINTPTR_MAX,
                                   found.dlfo_link_map->l_addr};
    if (!image.begin || !eh_sections_at(&image, found.dlfo_eh_frame, s) || !is_in(&found, s->header) ||
        !is_in(&found, s->frames_begin) || !is_in(&found, s->frames_end - 1))
        return CODE_NO_OBJECT;
    return number_of(&found);
}

/* Does the address belong to the dynamic linker? Its first instructions, which start the program, have no .eh_frame. */
static bool code_object_is_linker(uint64_t ip)
{
    struct dl_find_object found;
    return _dl_find_object((void *)(uintptr_t)ip, &found) == 0 &&
           found.dlfo_link_map->l_addr == _r_debug.r_ldbase;
}

/* Make the object of an address permanent. */
static void make_permanent(uint64_t address)
{
    struct dl_find_object found;
    struct record *r = object_find(address, &found) ? record_of(&found) : NULL;
    if (r)
        atomic_store_explicit(&r->number, CODE_PERMANENT, memory_order_release);
}

/* The objects that are loaded when the program starts are never unmapped. This one is among them if it comes before libc
 * in the list; otherwise it was loaded by dlopen, perhaps like others in the list. */
static __attribute__((constructor)) void find_permanent_objects(void)
{
    struct dl_find_object self, libc;
    bool self_seen = false;
    if (!tables_are_mapped() || !object_find((uint64_t)(uintptr_t)&find_permanent_objects, &self) ||
        !object_find((uint64_t)(uintptr_t)&gnu_get_libc_version, &libc))
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
            !(object_find((uint64_t)(uintptr_t)r->begin, &found) && is_same(r, &found))) {
            atomic_store(&r->number, UINT64_MAX);
            atomic_fetch_add(&s_mistakes, 1);
        }
    }
}

uint32_t code_objects_mistakes(void)
{
    return atomic_load_explicit(&s_mistakes, memory_order_acquire);
}

/* -- rules -- */

enum { SETS = 1 << 15, WAYS = 2, CFA_BITS = 24, BP_BITS = 12, OP_DEREF = 0x06, OP_BREG_RBP = 0x70 + EH_RBP };

struct entry {
    _Atomic uint64_t check, rule;
};

LASTING_TABLE(struct entry[WAYS], s_entries, SETS);
static _Atomic uint32_t s_mistakes; /* those after which the cache was cleared */

static bool fits(int64_t value, unsigned bits)
{
    return value >= -(1LL << (bits - 1)) && value < 1LL << (bits - 1);
}

static frame_rule packed(enum frame_kind kind, int64_t cfa, enum frame_bp bp, int64_t bp_offset)
{
    if (!fits(cfa, CFA_BITS) || bp_offset % 8 != 0 || !fits(bp_offset / 8, BP_BITS))
        return FRAME_OTHER;
    return kind | (uint64_t)bp << 3 | ((uint64_t)(bp_offset / 8) & ((1 << BP_BITS) - 1)) << 5 |
           ((uint64_t)cfa & ((1 << CFA_BITS) - 1)) << 17;
}

/* Is the expression rbp + *offset, followed by a load if `loads`? */
static bool is_from_bp(const struct eh_sections *s, const struct eh_rule *rule, bool loads, int64_t *offset)
{
    struct eh_bytes at = {s->frames_begin + rule->offset, s->frames_end, false};
    struct eh_bytes ops = eh_read_block(&at);
    const bool begins = eh_read(&ops, 1) == OP_BREG_RBP;
    *offset = eh_read_sleb(&ops);
    return begins && (!loads || eh_read(&ops, 1) == OP_DEREF) && !ops.bad && ops.at == ops.end;
}

/* The rules of eh_frame.h as one word. */
static frame_rule pack(const struct eh_rules *rules, const struct eh_sections *s)
{
    const struct eh_rule *cfa = &rules->cfa, *ip = &rules->registers[rules->return_address];
    const struct eh_rule *sp = &rules->registers[EH_RSP], *bp = &rules->registers[EH_RBP];
    enum frame_bp bp_at = BP_SAME;
    int64_t bp_offset = 0, cfa_offset = cfa->offset;
    enum frame_kind kind = FRAME_OTHER;
    if (ip->how == EH_UNDEFINED)
        return FRAME_OUTERMOST;
    if (ip->how != EH_SAVED || ip->offset != -8 || sp->how != EH_VALUE || sp->offset != 0 ||
        rules->is_signal_frame)
        return FRAME_OTHER;
    if (bp->how == EH_SAVED)
        bp_at = BP_FROM_CFA, bp_offset = bp->offset;
    else if (bp->how == EH_SAVED_AT && is_from_bp(s, bp, false, &bp_offset))
        bp_at = BP_FROM_BP;
    else if (bp->how != EH_SAME && bp->how != EH_UNDEFINED)
        return FRAME_OTHER;
    if (cfa->how == EH_IN_REGISTER && cfa->reg == EH_RSP)
        kind = FRAME_FROM_SP;
    else if (cfa->how == EH_IN_REGISTER && cfa->reg == EH_RBP)
        kind = FRAME_FROM_BP;
    else if (cfa->how == EH_COMPUTED && is_from_bp(s, cfa, true, &cfa_offset))
        kind = FRAME_SAVED_CFA;
    return kind == FRAME_OTHER ? FRAME_OTHER : packed(kind, cfa_offset, bp_at, bp_offset);
}

static struct entry *set_of(uint64_t ip)
{
    return s_entries[ip * 0x9e3779b97f4a7c15ULL >> 49];
}

static void rule_keep(uint64_t ip, frame_rule rule)
{
    struct entry *set = set_of(ip);
    /* the first way has the newest, the second what it replaced */
    const uint64_t old_rule = atomic_load_explicit(&set[0].rule, memory_order_relaxed);
    const uint64_t old_check = atomic_load_explicit(&set[0].check, memory_order_relaxed);
    if ((old_check ^ old_rule) != ip) {
        atomic_store_explicit(&set[1].rule, old_rule, memory_order_relaxed);
        atomic_store_explicit(&set[1].check, old_check, memory_order_relaxed);
    }
    atomic_store_explicit(&set[0].rule, rule, memory_order_relaxed);
    atomic_store_explicit(&set[0].check, ip ^ rule, memory_order_relaxed);
}

bool frame_read(void *context, uint64_t address, void *to, size_t n)
{
    (void)context;
    if (!kernel_can_read(address) || !kernel_can_read(address + n - 1))
        return false;
    memcpy(to, (const void *)(uintptr_t)address, n);
    return true;
}

/* Is a frame whose code has no rules the outermost? So are the dynamic linker's first instructions, which start the program.
 * And so is the function to which a coroutine's first function returns: no call has left this return address, it was put
 * there. */
static bool is_outermost(const struct eh_sections *s, uint64_t ip)
{
    struct eh_rules rules;
    return code_object_is_linker(ip) ||
           (eh_frame_rules(s, ip + 1, &rules) && !frame_pointer_after_call(ip + 1, frame_read, NULL));
}

frame_rule frame_new_rule(uint64_t ip)
{
    struct eh_sections sections;
    struct eh_rules rules;
    const uint32_t number = code_object_sections(ip, &sections);
    frame_rule rule = FRAME_UNKNOWN;
    if (number == CODE_NO_OBJECT)
        return FRAME_UNKNOWN;
    if (eh_frame_rules(&sections, ip, &rules))
        rule = pack(&rules, &sections);
    else if (is_outermost(&sections, ip))
        rule = FRAME_OUTERMOST;
    if (number == CODE_NO_NUMBER)
        return rule | (uint64_t)(CODE_NUMBERS - 1) << 41; /* no object has this number */
    rule |= (uint64_t)number << 41;
    rule_keep(ip, rule);
    return rule;
}

_Static_assert(SETS == 1 << (64 - 49), "set_of takes as many bits of the hash as there are sets");
_Static_assert(CODE_NUMBERS == 1 << (64 - 41), "numbers of objects fit into rules");

void frame_rules_check(void)
{
    const uint32_t mistakes = code_objects_mistakes();
    if (__builtin_expect(atomic_load_explicit(&s_mistakes, memory_order_acquire) == mistakes, 1))
        return;
    for (unsigned i = 0; i < SETS; i++)
        for (unsigned way = 0; way < WAYS; way++)
            atomic_store_explicit(&s_entries[i][way].check, ~0ULL, memory_order_relaxed);
    atomic_store_explicit(&s_mistakes, mistakes, memory_order_release);
}

frame_rule frame_kept_rule(uint64_t ip)
{
    struct entry *set = set_of(ip);
    for (unsigned way = 0; way < WAYS; way++) {
        const frame_rule rule = atomic_load_explicit(&set[way].rule, memory_order_relaxed);
        if ((atomic_load_explicit(&set[way].check, memory_order_relaxed) ^ rule) == ip)
            return rule;
    }
    return frame_new_rule(ip);
}

bool frame_full_rules(uint64_t ip, struct eh_rules *rules, struct eh_sections *sections)
{
    return code_object_sections(ip, sections) != CODE_NO_OBJECT && eh_frame_rules(sections, ip, rules);
}
