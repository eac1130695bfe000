/* known_stack.c - the numbers of C stacks that have not changed since they were unwound.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each thread has a table. A thread that begins at the address of one that has ended gets its table, too: its stack is at the
 * same place, and each word is compared.
 */
#include "ljtrace/native/inside/known_stack.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/base/stack_tree.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/unwind/frame_rules.h"

enum { SLOT_BITS = 7 };
_Static_assert(sizeof(struct known_stack) << SLOT_BITS <= NATIVE_UNWIND_SPARE, "the table has room");

NATIVE_THREAD_LOCAL struct known_stack *t_known; /* NULL = none so far */

static struct known_stack *slot_of(const struct native_registers *from)
{
    return &t_known[lt_hash_slot(from->ip ^ from->sp << 20, SLOT_BITS)];
}

static bool is_of(const struct known_stack *k, const struct native_registers *from, uint64_t function)
{
    return k->words && k->from.ip == from->ip && k->from.sp == from->sp &&
           (!k->uses_bp || k->from.bp == from->bp) && k->function == function &&
           k->mistakes == code_objects_mistakes();
}

const struct known_stack *known_stack_find(const struct native_registers *from, uint64_t function)
{
    if (!t_known)
        return NULL;
    const struct known_stack *k = slot_of(from);
    if (!is_of(k, from, function))
        return NULL;
    uint64_t changes = 0;
    for (uint32_t i = 0; i < k->words; i++)
        changes |= *(const uint64_t *)k->word[i].at ^ k->word[i].value;
    return changes ? NULL : k;
}

void known_stack_keep(const struct native_registers *from, uint64_t function, uint32_t number)
{
    if (!t_known)
        t_known = native_unwind_spare();
    if (!t_known)
        return;
    struct known_stack *k = slot_of(from);
    k->words = 0; /* a signal handler may leave this by a long jump */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    k->from = *from;
    k->function = function;
    k->mistakes = code_objects_mistakes();
    k->number = number;
    k->generation = stack_tree_generation();
    const uint32_t words = native_unwind_words(from, k->word, KNOWN_WORDS, &k->uses_bp);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    k->words = words;
}
