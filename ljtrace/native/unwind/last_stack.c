/* last_stack.c - memory for the last stacks of threads.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Memory comes from mmap and stays for the life of the process. It belongs to the address of a thread's control block.
 * A thread that finds its own address as the owner has the address of a thread that has ended, since glibc uses the
 * stacks of ended threads again. Threads beyond the number of places are walked without a last stack.
 */
#include "ljtrace/native/unwind/last_stack.h"
#include "ljtrace/native/unwind/code_objects.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/protocol/table.h"
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PLACES = 1024 };

struct place {
    _Atomic uint64_t owner;              /* the control block of a thread; 0: none yet */
    _Atomic(struct last_stack *) stacks; /* one of each kind */
};
LASTING_TABLE(struct place, s_places, PLACES);

static __thread __attribute__((tls_model("initial-exec"))) struct last_stack *t_stacks;
static __thread __attribute__((tls_model("initial-exec"))) bool t_has_none;

static struct last_stack *map_stacks(void)
{
    const long result = kernel_call(SYS_mmap, 0, LAST_KINDS * sizeof(struct last_stack),
                                    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return result < 0 && result > -4096 ? NULL : (struct last_stack *)result;
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
    last->walking = 0;
    last->n_objects = 1;
    last->objects[0] = CODE_PERMANENT;
    last->mistakes = code_objects_mistakes();
}

struct last_stack *last_stack_begin(enum last_kind kind, uint64_t sp, const struct stack_memory *memory)
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
    last->walking = sp;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return last;
}

uint32_t last_stack_object(struct last_stack *last, uint32_t number, uint64_t ip)
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

void last_stack_keep(struct last_stack *last, const uint64_t *ips, const uint64_t *sps, uint32_t n,
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
