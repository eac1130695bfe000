/* lt_vm_memo.c - see lt_vm_memo.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "lt_vm_memo.h"
#include "lt_options.h"
#include "lt_ring.h"
#include "lt_vm_names.h"
#include "lt_vm_record.h"
#include "lt_vm_trace.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_threadstate.h"

/* The words of a basis. SIZE and TRACES matter on traces only. */
enum { IP, SP, VM, STATE, THREAD, BASE, FROM, TO, CFRAME, GENERATIONS, JIT, TRACES, SIZE };
enum {
    SETS = RING_KEPT_STACKS / 4,
    WAYS = 4,
    MOST_WORDS = 48,
    MOST_FUNCTIONS = 24,
    HINTS = 3,
    HINT_SLOTS = 256
};
enum { FARTHEST_HINT = 1 << 16 };

struct word {
    Addr at;
    UWord value;
};

/* A stack, and all that was read for it. */
struct memo {
    UWord basis[LT_BASIS_WORDS];
    UInt count; /* of words; 0 = there is no memo here */
    Addr last;  /* of those on the C stack, the highest */
    struct lt_spot asking;
    UWord sum; /* of the stack, for --check-stacks */
    UInt functions;
    struct word word[MOST_WORDS], function[MOST_FUNCTIONS];
};

static struct memo s_memo[SETS][WAYS];
static UInt s_victim; /* the way to be overwritten next */

/* How far above the stack pointer return addresses were the last time, by the place that asks. */
static UInt s_hint[HINT_SLOTS][HINTS];

/* What the walk at hand has read. */
static struct {
    Addr at[MOST_WORDS], function[MOST_FUNCTIONS];
    UInt count, functions;
    Bool failed;
} s_notes;

static UWord mix(UWord sum, UWord word)
{
    return (sum ^ word) * 0x9e3779b97f4a7c15ULL ^ sum >> 29;
}

static UInt *hint_of(Addr ip, Addr sp)
{
    return s_hint[(ip ^ *(Addr *)sp * 31) * 0x9e3779b97f4a7c15ULL >> 56];
}

static Bool on_c_stack(const struct lt_basis *b, Addr at)
{
    return at >= b->c_from && at + sizeof(Addr) <= b->c_to;
}

static Bool on_lua_stack(const struct lt_basis *b, Addr at)
{
    return at >= b->from && at + sizeof(Addr) <= b->to;
}

static Addr word_at(const struct lt_basis *b, Addr at)
{
    return on_c_stack(b, at) || on_lua_stack(b, at) ? *(const Addr *)at : 0;
}

/* The words most likely to differ between stacks tell where to look; one product, since a chain of them would
 * take as long as all else. */
static UInt choose_set(const struct lt_vm *vm, const struct lt_basis *b)
{
    Addr sp = b->word[SP], base = b->word[BASE], cframe = b->word[CFRAME] & ~(Addr)3;
    const UInt *hint = hint_of(b->word[IP], sp);
    UWord sum = b->word[IP] ^ sp << 16 ^ *(const Addr *)sp << 5 ^ base << 29 ^ b->word[STATE] << 41;
    for (UInt i = 0; i < HINTS; i++)
        if (hint[i])
            sum += word_at(b, sp + hint[i]) << (3 + 11 * i);
    sum ^= word_at(b, base - 8) << 23 ^ word_at(b, cframe + vm->layout->cframe_pc) << 7;
    return (UInt)((sum ^ sum >> 31) * 0x9e3779b97f4a7c15ULL >> 40) % SETS;
}

/* -- the basis -- */

static Bool find_stacks(ThreadId tid, const struct lt_vm *vm, Addr L, struct lt_basis *b)
{
    b->from = lt_vm_ref(vm, L + vm->at->thread_stack);
    b->to = b->from + 8 * (Addr)lt_vm_u32(L + vm->at->thread_size);
    b->c_from = VG_(get_SP)(tid);
    b->c_to = VG_(thread_get_stack_max)(tid);
    return lt_readable(b->from, b->to - b->from) && on_c_stack(b, b->c_from) &&
           b->c_to - VG_(thread_get_stack_size)(tid) <= b->c_from;
}

static void fill_basis(ThreadId tid, const struct lt_vm *vm, Addr L, SizeT size, struct lt_basis *b)
{
    UWord *w = b->word;
    w[IP] = VG_(get_IP)(tid);
    w[SP] = b->c_from;
    w[VM] = (UWord)vm;
    w[STATE] = lt_vm_u32(vm->g + vm->layout->vmstate);
    w[THREAD] = L;
    w[BASE] = lt_vm_ref(vm, L + vm->at->thread_base);
    w[FROM] = b->from;
    w[TO] = b->to;
    w[CFRAME] = lt_peek_number(L + vm->at->thread_cframe, 8);
    w[GENERATIONS] = raw_pair(lt_places_generation(), lt_frames_generation());
    w[JIT] = vm->layout->jit_base ? lt_vm_ref(vm, vm->g + vm->layout->jit_base) : 0;
    w[TRACES] = w[JIT] ? raw_pair(lt_recording_generation(), lt_trace_generation()) : 0;
    w[SIZE] = w[JIT] ? size : 0;
}

static Bool get_basis(ThreadId tid, const struct lt_vm *vm, SizeT size, struct lt_basis *b)
{
    Addr L = lt_vm_ref(vm, vm->g + vm->layout->cur_l);
    b->usable = lt_options.stack_depth && L && lt_vm_gct(vm, L) == GCT_THREAD && find_stacks(tid, vm, L, b);
    if (!b->usable)
        return False;
    fill_basis(tid, vm, L, size, b);
    b->on_trace = b->word[JIT] != 0;
    b->set = choose_set(vm, b);
    return True;
}

/* -- finding -- */

/* What a frame's function is, as far as a stack's frames go: of a function in Lua its bytecode, since
 * closures come and go; of another itself. With 4-byte references the slot holds the frame's link as well. */
static UWord function_at(const struct lt_vm *vm, Addr slot)
{
    UWord word = *(const UWord *)slot;
    Bool wide = vm->layout->gc64;
    Addr f = wide ? word & (((Addr)1 << 47) - 1) : (UInt)word;
    UInt kind = (UInt)lt_peek_number(f + vm->at->gct, 2); /* its type, and the number of a built-in one */
    UWord what = kind == GCT_FUNC ? lt_vm_ref(vm, f + vm->at->func_pc) | 1 : f;
    return wide ? what ^ (UWord)kind << 48 : what | word >> 32 << 32;
}

static Bool same_functions(const struct memo *m, const struct lt_vm *vm)
{
    for (UInt i = 0; i < m->functions; i++)
        if (function_at(vm, m->function[i].at) != m->function[i].value)
            return False;
    return True;
}

static Bool reads_the_same(const struct memo *m, const struct lt_vm *vm, const struct lt_basis *b)
{
    for (UInt i = 0; i < LT_BASIS_WORDS; i++)
        if (m->basis[i] != b->word[i])
            return False;
    if (!m->count || !on_c_stack(b, m->last))
        return False;
    for (UInt i = 0; i < m->count; i++)
        if (*(const UWord *)m->word[i].at != m->word[i].value)
            return False;
    return same_functions(m, vm);
}

static UInt id_of(const struct memo *m)
{
    return (UInt)(m - s_memo[0]) + 1; /* 0 is none */
}

Bool lt_memo_find(ThreadId tid, struct lt_vm *vm, SizeT size, struct lt_basis *b, struct lt_stack *stack)
{
    if (!get_basis(tid, vm, size, b))
        return False;
    struct memo *set = s_memo[b->set];
    for (UInt k = 0; k < WAYS; k++)
        if (reads_the_same(&set[k], vm, b) && (!b->on_trace || lt_trace_still(vm, &set[k].asking))) {
            vm->asking = set[k].asking;
            stack->id = id_of(&set[k]);
            stack->depth = 0;
            return True;
        }
    return False;
}

static UWord sum_of(const struct lt_stack *stack)
{
    UWord sum = stack->depth;
    for (UInt i = 0; i < stack->depth; i++)
        sum = mix(sum, stack->ips[i]);
    return sum;
}

Bool lt_memo_is(UInt id, const struct lt_stack *stack)
{
    return s_memo[(id - 1) / WAYS][(id - 1) % WAYS].sum == sum_of(stack);
}

/* -- remembering -- */

void lt_memo_begin(void)
{
    s_notes.count = s_notes.functions = 0;
    s_notes.failed = False;
}

void lt_memo_give_up(void)
{
    s_notes.failed = True;
}

void lt_memo_note(Addr at)
{
    if (s_notes.count == MOST_WORDS)
        s_notes.failed = True;
    else
        s_notes.at[s_notes.count++] = at;
}

void lt_memo_note_function(Addr slot)
{
    if (s_notes.functions == MOST_FUNCTIONS)
        s_notes.failed = True;
    else
        s_notes.function[s_notes.functions++] = slot;
}

void lt_memo_note_return(Addr sp, Addr ip)
{
    Addr at = sp - sizeof(Addr);
    if (!lt_readable(at, sizeof(Addr)) || *(const Addr *)at != ip + 1)
        s_notes.failed = True; /* it is not where it was looked for */
    lt_memo_note(at);
}

static void keep_hint(const struct lt_basis *b, const struct lt_stack *host)
{
    UInt *hint = hint_of(b->word[IP], b->c_from);
    for (UInt i = 0; i < HINTS; i++) {
        Addr above = i + 2 < host->depth ? host->sps[i + 2] - sizeof(Addr) - b->c_from : 0;
        hint[i] = above < FARTHEST_HINT ? (UInt)above : 0;
    }
}

/* False: it has been read somewhere else, where it can not be read again so easily. */
static Bool add_word(struct memo *m, const struct lt_basis *b, Addr at)
{
    if (on_c_stack(b, at))
        m->last = at > m->last ? at : m->last;
    else if (!on_lua_stack(b, at))
        return False;
    m->word[m->count++] = (struct word){at, *(const UWord *)at};
    return True;
}

static Bool add_function(struct memo *m, const struct lt_vm *vm, const struct lt_basis *b, Addr slot)
{
    if (!on_lua_stack(b, slot))
        return False;
    m->function[m->functions++] = (struct word){slot, function_at(vm, slot)};
    return True;
}

static Bool fill(struct memo *m, const struct lt_vm *vm, const struct lt_basis *b)
{
    Bool all = True;
    m->count = m->functions = 0;
    m->last = b->c_from;
    for (UInt i = 0; i < s_notes.count; i++)
        all = all && add_word(m, b, s_notes.at[i]);
    for (UInt i = 0; i < s_notes.functions; i++)
        all = all && add_function(m, vm, b, s_notes.function[i]);
    if (!all)
        m->count = 0;
    return m->count > 0;
}

void lt_memo_keep(const struct lt_basis *b, const struct lt_vm *vm, const struct lt_stack *host,
                  struct lt_stack *stack)
{
    for (UInt i = 1; i < host->depth; i++)
        lt_memo_note_return(host->sps[i], host->ips[i]);
    if (!b->usable || s_notes.failed || (b->on_trace && !vm->asking.trace))
        return;
    keep_hint(b, host);
    struct memo *m = &s_memo[b->set][s_victim++ % WAYS];
    if (!fill(m, vm, b))
        return;
    VG_(memcpy)(m->basis, b->word, sizeof m->basis);
    m->asking = vm->asking;
    m->sum = sum_of(stack);
    stack->id = id_of(m);
    lt_ring_put(RAW_STACK, stack->id, NULL, 0, (const uint64_t *)stack->ips, stack->depth);
}
