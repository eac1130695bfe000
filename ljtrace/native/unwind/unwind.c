/* unwind.c - walk the stack.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A walk follows three registers, which is enough for nearly all frames: rip, rsp and rbp. For a frame with rules that
 * need more (those of a signal, of the dynamic linker, of hand-written code), all registers are computed. If one of them
 * was lost on the way, the walk begins anew inside this function, where all are known, and follows all.
 *
 * Frames that are the same as in the last stack of the thread are not walked but compared.
 *
 * Start reading at native_unwind.
 */
#include "ljtrace/native/unwind/unwind.h"
#include "ljtrace/frames/frame_pointer.h"
#include "ljtrace/native/unwind/frame_rules.h"
#include "ljtrace/native/unwind/eh_expression.h"
#include "ljtrace/native/unwind/stack_memory.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/protocol/table.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* -- the last stack of a thread -- */

/* Most stacks of a thread share their outer frames with the stack before. A step from a frame to its caller depends on
 * the registers of the frame and on one or two words of memory: the return address and the saved rbp. So where a walk
 * comes to a frame with the same registers as in the last walk, and these words are the same, the caller is the same,
 * and so on outwards. Comparing words is faster than walking, since no comparison waits for the one before.
 *
 * A step that used more than these words, or memory that may be unmapped, is done anew. So is one by rules of an object
 * that has been closed.
 *
 * Memory comes from mmap and stays for the life of the process. It belongs to the address of a thread's control block.
 * A thread that finds its own address as the owner has the address of a thread that has ended, since glibc uses the
 * stacks of ended threads again. Threads beyond the number of places are walked without a last stack. */

enum { LAST_FRAMES = 1024 }; /* deeper stacks are not kept */
enum { LAST_OBJECTS = 32, USES_BP = 0x80 };

/* The frames from `first` to the end of the arrays, the innermost first: so that outer frames stay where they are. */
struct last_stack {
    uint32_t first;
    uint32_t mistakes; /* see code_objects_mistakes */
    uint64_t walking;  /* the stack pointer at the beginning of the walk that is at work; 0: none is */
    uint64_t ip[LAST_FRAMES], sp[LAST_FRAMES], bp[LAST_FRAMES];
    /* The word that rbp was restored from; if rbp was unchanged, the word of the return address; 0: the step to this
     * frame must be done anew. */
    uint64_t word[LAST_FRAMES];
    /* The object with the rule for the step to this frame, as an index of `objects`; and USES_BP, if that rule uses rbp. */
    uint8_t object[LAST_FRAMES];
    /* bp, word and object of the walk at work, from index 0 */
    uint64_t new_bp[LAST_FRAMES], new_word[LAST_FRAMES];
    uint8_t new_object[LAST_FRAMES];
    uint32_t n_objects;
    uint32_t objects[LAST_OBJECTS]; /* numbers of frame_rules.h; the first is CODE_PERMANENT */
    uint32_t valid;                 /* bit i: objects[i] was seen to be loaded in this walk */
    uint32_t frames; /* of the last walk; 0: it may end elsewhere though all words are the same */
};

/* Walks that begin at the caller, and those from given registers: the latter continue stacks of the former, so each kind
 * has its own last stack. */
enum last_kind { LAST_FROM_CALLER, LAST_FROM_REGISTERS, LAST_KINDS };

static inline void last_stack_end(struct last_stack *last)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    last->walking = 0;
}

/* Are the words that the step to frame i depends on still the same? */
static inline bool last_stack_step_is_same(const struct last_stack *last, uint32_t i)
{
    const uint64_t return_at = last->sp[i] - 8, word_at = last->word[i];
    uint64_t return_address, word;
    if (!word_at || !(last->valid >> (last->object[i] & ~USES_BP) & 1))
        return false;
    memcpy(&return_address, (const void *)(uintptr_t)return_at, sizeof return_address);
    memcpy(&word, (const void *)(uintptr_t)word_at, sizeof word);
    return return_address == last->ip[i] + 1 && word == (word_at == return_at ? return_address : last->bp[i]);
}

enum { PLACES = 1024 };

struct place {
    _Atomic uint64_t owner;              /* the control block of a thread; 0: none yet */
    _Atomic(struct last_stack *) stacks; /* one of each kind */
};
LASTING_TABLE(struct place, s_places, PLACES);

static __thread __attribute__((tls_model("initial-exec"))) struct last_stack *t_stacks;
static __thread __attribute__((tls_model("initial-exec"))) bool t_has_none;

/* Says that memory is the recorder's (inside/ring.c). Programs that only unwind have no such function. */
__attribute__((weak)) void native_own(const void *at, size_t size);

static struct last_stack *map_stacks(void)
{
    const size_t size = LAST_KINDS * sizeof(struct last_stack) + NATIVE_UNWIND_SPARE;
    const long result =
        kernel_call(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (result < 0 && result > -4096)
        return NULL;
    if (native_own)
        native_own((const void *)result, size);
    return (struct last_stack *)result;
}

/* Find a place for this thread. */
static struct last_stack *claim(void)
{
    const uint64_t self = kernel_thread();
    for (unsigned i = 0; i < PLACES; i++) {
        uint64_t owner = atomic_load(&s_places[i].owner);
        if (owner == self)
            return atomic_load(&s_places[i].stacks);
        if (owner == 0 && atomic_compare_exchange_strong(&s_places[i].owner, &owner, self)) {
            atomic_store(&s_places[i].stacks, map_stacks());
            return atomic_load(&s_places[i].stacks);
        }
    }
    return NULL;
}

static void forget(struct last_stack *last)
{
    last->first = LAST_FRAMES;
    last->walking = last->frames = 0;
    last->n_objects = 1;
    last->objects[0] = CODE_PERMANENT;
    last->mistakes = code_objects_mistakes();
}

/* The last stack of this thread, for a walk that begins at `sp`. NULL: there is none, or the walk that uses it was
 * interrupted by this one. */
static struct last_stack *last_stack_begin(enum last_kind kind, uint64_t sp,
                                           const struct stack_memory *memory)
{
    if (!t_stacks && !t_has_none) {
        struct last_stack *stacks = claim();
        for (unsigned i = 0; stacks && i < LAST_KINDS; i++)
            forget(&stacks[i]);
        t_has_none = !stacks;
        t_stacks = stacks;
    }
    if (!t_stacks)
        return NULL;
    struct last_stack *last = &t_stacks[kind];
    if (last->walking) {
        /* a walk further in on the same stack was left by longjmp: it will not go on */
        const bool left =
            stack_memory_knows(memory, last->walking) && stack_memory_knows(memory, sp) && sp > last->walking;
        if (!left)
            return NULL;
        forget(last);
    }
    if (last->mistakes != code_objects_mistakes() || last->n_objects == LAST_OBJECTS)
        forget(last);
    last->valid = 1;
    last->frames = 0;
    last->walking = sp;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return last;
}

/* The index of an object in `objects` if it is loaded and contains the code at `ip`; LAST_OBJECTS if it is not. */
static uint32_t last_stack_object(struct last_stack *last, uint32_t number, uint64_t ip)
{
    uint32_t i = 0;
    while (i < last->n_objects && last->objects[i] != number)
        i++;
    if (i < last->n_objects && (last->valid >> i & 1))
        return i;
    if (i == LAST_OBJECTS || code_object_number(ip) != number)
        return LAST_OBJECTS;
    if (i == last->n_objects)
        last->objects[last->n_objects++] = number;
    last->valid |= 1u << i;
    return i;
}

/* Keep the frames ips[0] to ips[n-1] before the frame at index `at`, with what is noted of them. */
static void last_stack_keep(struct last_stack *last, const uint64_t *ips, const uint64_t *sps, uint32_t n,
                            uint32_t at)
{
    if (n > at) {
        last->first = at; /* there is no room for the new frames */
        return;
    }
    const uint32_t first = at - n;
    memcpy(last->ip + first, ips, n * sizeof *ips);
    memcpy(last->sp + first, sps, n * sizeof *sps);
    memcpy(last->bp + first, last->new_bp, n * sizeof *ips);
    memcpy(last->word + first, last->new_word, n * sizeof *ips);
    memcpy(last->object + first, last->new_object, n);
    last->first = first;
}

/* -- the walk -- */

enum { THREE = 1u << EH_RIP | 1u << EH_RSP | 1u << EH_RBP };
enum { ROUNDS = 16 }; /* at most so many frames of this file lie below the caller's */

/* What became of a step to the caller. */
enum step {
    STEP_DONE,
    STEP_ENDED /* no caller, or none that can be found (walk.lost) */,
    STEP_NO_RULES /* of the code: its caller may be found otherwise */,
    STEP_UNKNOWN_REGISTER,
    STEP_UNUSUAL /* it needs all registers */
};

struct walk {
    uint64_t *ips, *sps;
    uint32_t n, most;
    bool plausible; /* frame pointers are followed where there are no rules */
    bool lost;      /* there is a caller that cannot be found */
    bool is_whole;  /* the code of the last frame says that it has no caller */
    struct stack_memory memory;
    struct last_stack *last; /* NULL: not used */
    uint32_t seek;           /* the frame of the last stack to compare with next */
    /* Frames of this walk that are the same as in the last stack: from frame `from` of this one and `same` of that, up to
     * before `same_end`. Nothing is the same if same_end is 0. */
    uint32_t from, same, same_end;
};

/* A register of the caller, as its rule says. False: it cannot be known. */
static bool restore(struct walk *w, const struct eh_rule *rule, const struct eh_registers *r, uint64_t cfa,
                    struct eh_bytes expression, uint64_t *value)
{
    switch (rule->how) {
    case EH_SAVED:
        return stack_memory_read(&w->memory, cfa + (uint64_t)(int64_t)rule->offset, value);
    case EH_VALUE:
        *value = cfa + (uint64_t)(int64_t)rule->offset;
        return true;
    case EH_IN_REGISTER:
        *value = rule->reg < EH_REGISTERS ? r->value[rule->reg] : 0;
        return rule->reg < EH_REGISTERS && (r->known >> rule->reg & 1);
    case EH_SAVED_AT:
        return eh_evaluate(expression, r, &w->memory, &cfa, value) &&
               stack_memory_read(&w->memory, *value, value);
    case EH_COMPUTED:
        return eh_evaluate(expression, r, &w->memory, &cfa, value);
    default:
        return false;
    }
}

static bool find_cfa(struct walk *w, const struct eh_rule *rule, const struct eh_registers *r,
                     struct eh_bytes expression, uint64_t *cfa)
{
    if (rule->how == EH_COMPUTED)
        return eh_evaluate(expression, r, &w->memory, NULL, cfa);
    *cfa = r->value[rule->reg] + (uint64_t)(int64_t)rule->offset;
    return r->known >> rule->reg & 1;
}

static struct eh_bytes expression_of(const struct eh_sections *s, const struct eh_rule *rule)
{
    return (struct eh_bytes){s->frames_begin + rule->offset, s->frames_end, false};
}

static enum step lose(struct walk *w)
{
    w->lost = true;
    return STEP_ENDED;
}

/* Step to the caller with all registers, by the rules as they are written. */
static __attribute__((noinline)) enum step step_with_all(struct walk *w, struct eh_registers *r)
{
    struct eh_rules rules;
    struct eh_sections s;
    struct eh_registers caller = *r;
    uint64_t cfa;
    if (!frame_full_rules(r->value[EH_RIP], &rules, &s))
        return STEP_NO_RULES;
    if (rules.registers[rules.return_address].how == EH_UNDEFINED)
        return STEP_ENDED;
    if (!find_cfa(w, &rules.cfa, r, expression_of(&s, &rules.cfa), &cfa))
        return STEP_UNKNOWN_REGISTER;
    for (unsigned i = 0; i < EH_REGISTERS; i++) {
        const struct eh_rule *rule = &rules.registers[i];
        const bool has_expression = rule->how == EH_SAVED_AT || rule->how == EH_COMPUTED;
        const struct eh_bytes expression = has_expression ? expression_of(&s, rule) : (struct eh_bytes){0};
        if (rule->how == EH_SAME)
            continue;
        caller.known &= ~(1u << i);
        if (restore(w, rule, r, cfa, expression, &caller.value[i]))
            caller.known |= 1u << i;
    }
    if (!(caller.known >> EH_RSP & 1) || !(caller.known >> rules.return_address & 1))
        return r->known & (1u << EH_RBX) ? lose(w) : STEP_UNKNOWN_REGISTER;
    const uint64_t back = caller.value[rules.return_address];
    if (back == 0)
        return STEP_ENDED;
    if (caller.value[EH_RSP] <= r->value[EH_RSP] && !rules.is_signal_frame)
        return lose(w);
    caller.value[EH_RIP] = rules.is_signal_frame ? back : back - 1;
    caller.known |= 1u << EH_RIP;
    *r = caller;
    return STEP_DONE;
}

static void add_frame(struct walk *w, uint64_t ip, uint64_t sp)
{
    w->ips[w->n] = ip;
    w->sps[w->n++] = sp;
}

/* The registers here. All that a caller expects to be unchanged are known. */
static inline __attribute__((always_inline)) void get_registers(struct eh_registers *r)
{
    __asm__ volatile("leaq 0f(%%rip), %%rax\n"
                     "0: movq %%rax, 128(%0)\n"
                     "movq %%rbx, 24(%0)\n"
                     "movq %%rbp, 48(%0)\n"
                     "movq %%rsp, 56(%0)\n"
                     "movq %%r12, 96(%0)\n"
                     "movq %%r13, 104(%0)\n"
                     "movq %%r14, 112(%0)\n"
                     "movq %%r15, 120(%0)\n"
                     :
                     : "r"(r->value)
                     : "rax", "memory");
    r->known = THREE | 1u << EH_RBX | 0xfu << EH_R12;
}

/* Walk again from here, with all registers, first to the frame at stack pointer sp. False: it was not found. */
static __attribute__((noinline)) bool walk_from_here(struct walk *w, uint64_t sp)
{
    struct eh_registers r;
    get_registers(&r);
    for (unsigned i = 0; i < ROUNDS && r.value[EH_RSP] < sp; i++)
        if (step_with_all(w, &r) != STEP_DONE)
            return false;
    if (r.value[EH_RSP] != sp)
        return false;
    w->n = 0;
    while (w->n < w->most) {
        add_frame(w, r.value[EH_RIP], r.value[EH_RSP]);
        if (step_with_all(w, &r) != STEP_DONE)
            break;
    }
    return true;
}

/* -- the last stack -------------------------------------------------------------------------------- */

/* How the walk came to a frame. */
struct arrival {
    uint64_t word; /* as in struct last_stack */
    uint8_t object;
};

/* What was the same ends: note of these frames what is noted of all others. */
static void end_same(struct walk *w)
{
    const uint32_t n = w->same_end - w->same;
    for (uint32_t i = 0; w->same_end && i < n && w->from + i < LAST_FRAMES; i++) {
        w->last->new_bp[w->from + i] = w->last->bp[w->same + i];
        w->last->new_word[w->from + i] = w->last->word[w->same + i];
        w->last->new_object[w->from + i] = w->last->object[w->same + i];
    }
    w->same_end = 0;
}

/* Note the next frame, which was not in the last stack, or where the step to it must be done anew. */
static void note_frame(struct walk *w, uint64_t bp, struct arrival arrival)
{
    if (!w->last)
        return;
    end_same(w);
    if (w->n < LAST_FRAMES) {
        w->last->new_bp[w->n] = bp;
        w->last->new_word[w->n] = arrival.word;
        w->last->new_object[w->n] = arrival.object;
    }
}

/* Is the next frame in the last stack? */
static bool find_in_last(struct walk *w, const struct native_registers *at)
{
    struct last_stack *last = w->last;
    while (w->seek < LAST_FRAMES && last->sp[w->seek] < at->sp)
        w->seek++;
    return w->seek < LAST_FRAMES && last->sp[w->seek] == at->sp && last->ip[w->seek] == at->ip &&
           last->bp[w->seek] == at->bp;
}

/* Add the next frame, which is in the last stack, and those outside of it as long as they are the same. *at becomes the
 * last one that was added. */
static void add_same(struct walk *w, struct native_registers *at)
{
    const struct last_stack *last = w->last;
    uint32_t i = w->seek, n = w->n;
    if (w->same_end != i) {
        end_same(w);
        w->from = n;
        w->same = i;
    }
    do {
        w->ips[n] = last->ip[i];
        w->sps[n++] = last->sp[i++];
    } while (i < LAST_FRAMES && n < w->most && last_stack_step_is_same(last, i));
    w->n = n;
    w->seek = w->same_end = i;
    *at = (struct native_registers){last->ip[i - 1], last->sp[i - 1], last->bp[i - 1]};
}

/* The walk has ended: keep its stack. */
static void keep_stack(struct walk *w)
{
    struct last_stack *last = w->last;
    if (w->same_end && (w->same_end == LAST_FRAMES || w->n == w->most)) {
        last_stack_keep(last, w->ips, w->sps, w->from, w->same);
        return;
    }
    end_same(w);
    last_stack_keep(last, w->ips, w->sps, w->n, LAST_FRAMES);
}

/* -- the walk -------------------------------------------------------------------------------------- */

/* The rule for the instruction at `ip`, and the object that it is from as an index of the last stack. LAST_OBJECTS: the
 * step cannot be kept. */
static inline __attribute__((always_inline)) frame_rule rule_of(struct walk *w, uint64_t ip, uint32_t *object)
{
    const frame_rule rule = frame_kept_rule(ip);
    *object = 0;
    if (__builtin_expect(frame_object(rule) == CODE_PERMANENT, 1))
        return rule;
    if (w->last) {
        *object = last_stack_object(w->last, frame_object(rule), ip);
        if (*object != LAST_OBJECTS)
            return rule;
    }
    *object = LAST_OBJECTS;
    return frame_object(rule) == code_object_number(ip) ? rule : frame_new_rule(ip);
}

/* What the step to the caller depends on besides the return address. */
static struct arrival arrival_of(const struct walk *w, frame_rule rule, uint32_t object, uint64_t cfa,
                                 uint64_t word)
{
    const enum frame_kind kind = frame_kind(rule);
    const bool uses_bp = kind == FRAME_FROM_BP || frame_bp(rule) == BP_FROM_BP;
    const bool knows = stack_memory_knows(&w->memory, cfa - 8) && stack_memory_knows(&w->memory, word);
    if (!knows || object == LAST_OBJECTS || kind == FRAME_SAVED_CFA)
        return (struct arrival){0, 0};
    return (struct arrival){word, (uint8_t)(object | (uses_bp ? USES_BP : 0))};
}

/* Step from *at to its caller. */
static inline __attribute__((always_inline)) enum step step(struct walk *w, struct native_registers *at,
                                                            struct arrival *arrival)
{
    uint32_t object;
    const frame_rule rule = rule_of(w, at->ip, &object);
    const enum frame_kind kind = frame_kind(rule);
    uint64_t cfa, ip, bp_at;
    if (kind == FRAME_FROM_SP)
        cfa = at->sp + (uint64_t)frame_cfa_offset(rule);
    else if (kind == FRAME_FROM_BP)
        cfa = at->bp + (uint64_t)frame_cfa_offset(rule);
    else if (kind != FRAME_SAVED_CFA) {
        w->is_whole = kind != FRAME_OTHER && kind != FRAME_UNKNOWN && object == 0;
        return kind == FRAME_OTHER ? STEP_UNUSUAL : kind == FRAME_UNKNOWN ? STEP_NO_RULES : STEP_ENDED;
    } else if (!stack_memory_read(&w->memory, at->bp + (uint64_t)frame_cfa_offset(rule), &cfa))
        return lose(w);
    if (cfa <= at->sp || !stack_memory_read(&w->memory, cfa - 8, &ip))
        return lose(w);
    if (ip == 0)
        return STEP_ENDED;
    bp_at = cfa - 8;
    if (frame_bp(rule) != BP_SAME) {
        bp_at = (frame_bp(rule) == BP_FROM_CFA ? cfa : at->bp) + (uint64_t)frame_bp_offset(rule);
        if (!stack_memory_read(&w->memory, bp_at, &at->bp))
            return lose(w);
    }
    *arrival = arrival_of(w, rule, object, cfa, bp_at);
    at->ip = ip - 1;
    at->sp = cfa;
    return STEP_DONE;
}

/* Step from a frame whose code has no rules. */
static __attribute__((noinline)) enum step step_without_rules(struct walk *w, struct native_registers *at)
{
    struct frame_pointer caller = {at->ip, at->sp, at->bp};
    if (!w->plausible || !frame_pointer_step(&caller, frame_read, NULL))
        return lose(w);
    *at = (struct native_registers){caller.ip, caller.sp, caller.bp};
    return STEP_DONE;
}

/* Walk with three registers from *at, which is the next frame of the stack. True: the walk is complete. False: the frame
 * at *at, which is the last of the stack so far, has unusual rules. */
static bool walk_with_three(struct walk *w, struct native_registers *at)
{
    struct arrival arrival = {0, 0};
    while (w->n < w->most) {
        if (w->last && find_in_last(w, at))
            add_same(w, at);
        else {
            note_frame(w, at->bp, arrival);
            add_frame(w, at->ip, at->sp);
        }
        enum step done = step(w, at, &arrival);
        if (done == STEP_NO_RULES) {
            arrival = (struct arrival){0, 0};
            done = step_without_rules(w, at);
        }
        if (done != STEP_DONE)
            return done == STEP_ENDED;
    }
    return true;
}

/* Step across frames with unusual rules, of which the first is the last of the stack so far. After a signal frame all
 * registers are known, and the next frame may need them. */
static __attribute__((noinline)) enum step cross(struct walk *w, struct native_registers *at)
{
    struct eh_registers r = {.known = THREE};
    r.value[EH_RIP] = at->ip;
    r.value[EH_RSP] = at->sp;
    r.value[EH_RBP] = at->bp;
    for (;;) {
        const enum step done = step_with_all(w, &r);
        if (done != STEP_DONE)
            return done;
        *at = (struct native_registers){r.value[EH_RIP], r.value[EH_RSP], r.value[EH_RBP]};
        uint32_t object;
        if (w->n == w->most || frame_kind(rule_of(w, at->ip, &object)) != FRAME_OTHER)
            return STEP_DONE;
        note_frame(w, at->bp, (struct arrival){0, 0});
        add_frame(w, at->ip, at->sp);
    }
}

static void walk_from(struct walk *w, struct native_registers at, bool can_restart)
{
    const uint64_t start = at.sp;
    while (!walk_with_three(w, &at)) {
        const enum step done = cross(w, &at);
        const bool again = done == STEP_UNKNOWN_REGISTER && can_restart;
        if (again && walk_from_here(w, start))
            w->last = NULL; /* other registers decided, too */
        else if (done == STEP_UNKNOWN_REGISTER || done == STEP_NO_RULES)
            lose(w);
        if (done != STEP_DONE)
            return;
    }
}

/* here: `from` is a frame of the calling code. */
static void walk_stack(struct walk *w, const struct native_registers *from, bool here)
{
    frame_rules_check();
    w->memory = stack_memory_from(from->sp);
    struct last_stack *last = w->last =
        last_stack_begin(here ? LAST_FROM_CALLER : LAST_FROM_REGISTERS, from->sp, &w->memory);
    if (last)
        w->seek = last->first;
    walk_from(w, *from, here);
    if (w->last) {
        keep_stack(w);
        last->frames = !w->lost && (w->is_whole || w->n == w->most) ? w->n : 0;
    }
    if (last)
        last_stack_end(last);
}

void *native_unwind_spare(void)
{
    return t_stacks ? t_stacks + LAST_KINDS : NULL;
}

/* From the outermost frame inwards, as rbp matters if a step further out uses it. */
uint32_t native_unwind_words(const struct native_registers *from, struct native_word *words, uint32_t most,
                             bool *uses_bp)
{
    const struct last_stack *last = t_stacks ? &t_stacks[LAST_FROM_REGISTERS] : NULL;
    uint32_t n = 0;
    *uses_bp = false;
    if (!last || last->walking || !last->frames || last->frames > LAST_FRAMES - last->first)
        return 0;
    const uint32_t first = last->first;
    if (last->ip[first] != from->ip || last->sp[first] != from->sp || last->bp[first] != from->bp)
        return 0;
    for (uint32_t i = first + last->frames - 1; i > first; i--) {
        const uint64_t return_at = last->sp[i] - 8;
        if (!last->word[i] || (last->object[i] & ~USES_BP) != 0 || n + 2 > most)
            return 0;
        words[n++] = (struct native_word){return_at, last->ip[i] + 1};
        if (last->word[i] != return_at) {
            if (*uses_bp)
                words[n++] = (struct native_word){last->word[i], last->bp[i]};
            *uses_bp = false;
        }
        *uses_bp |= (last->object[i] & USES_BP) != 0;
    }
    return n;
}

uint32_t native_unwind(const struct native_registers *from, uint64_t *ips, uint64_t *sps, uint32_t most)
{
    const uint64_t *frame = __builtin_frame_address(0); /* the saved rbp, and the return address */
    const struct native_registers here = {frame[1] - 1, (uint64_t)(uintptr_t)(frame + 2), frame[0]};
    struct walk w = {.ips = ips, .sps = sps, .most = most};
    walk_stack(&w, from ? from : &here, !from);
    return w.n;
}

uint32_t native_unwind_from(const struct native_registers *from, bool plausible, uint64_t *ips, uint64_t *sps,
                            uint32_t most, bool *lost)
{
    struct walk w = {.ips = ips, .sps = sps, .most = most, .plausible = plausible};
    walk_stack(&w, from, false);
    *lost = w.lost;
    return w.n;
}
