/* frame_rules.c - pack the rules of .eh_frame and keep them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An entry of the cache is two words, which threads read and write without a lock: the rule, and the code address
 * combined with the rule by exclusive or. If two threads write an entry at once, the words of different writers do not
 * give the address, and the entry is not used.
 */
#include "ljtrace/native/unwind/frame_rules.h"
#include "ljtrace/frames/frame_pointer.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/protocol/table.h"
#include <stdatomic.h>
#include <string.h>

enum { SETS = 1 << 15, WAYS = 2, CFA_BITS = 24, BP_BITS = 12, OP_DEREF = 0x06, OP_BREG_RBP = 0x70 + EH_RBP };

struct entry {
    _Atomic uint64_t check, rule;
};

LASTING_TABLE(struct entry[WAYS], s_entries, SETS);
static _Atomic uint32_t s_mistakes; /* those of code_objects.h after which the cache was cleared */

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

static void keep(uint64_t ip, frame_rule rule)
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
    keep(ip, rule);
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
