/* notes.c - what a walk over the stacks has read. (no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/stack/notes.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/protocol/table.h"

TABLE(struct lt_notes, s_notes, 1);

const struct lt_notes *lt_notes_taken(void)
{
    return s_notes;
}

void lt_notes_begin(void)
{
    struct lt_notes *n = s_notes;
    n->words = n->functions = n->threads = n->steps = n->named = n->frames = 0;
    n->trace_sp = 0;
    n->failed = n->is_long = false;
}

void lt_notes_give_up(void)
{
    s_notes->failed = true;
}

void lt_notes_cut(uint32_t frames)
{
    s_notes->frames = frames;
}

static void note(uint64_t at, uint32_t steps)
{
    struct lt_notes *n = s_notes;
    if (n->words == NOTES_WORDS)
        n->failed = true;
    else
        n->word[n->words++] = (struct lt_note){at, steps};
}

void lt_notes_word(uint64_t at)
{
    note(at, s_notes->steps);
}

void lt_notes_function(uint64_t slot)
{
    struct lt_notes *n = s_notes;
    if (n->functions == NOTES_FUNCTIONS)
        n->failed = true;
    else
        n->function[n->functions++] = (struct lt_note){slot, n->steps};
}

void lt_notes_thread(uint64_t L)
{
    struct lt_notes *n = s_notes;
    if (n->threads == NOTES_THREADS)
        n->failed = true;
    else
        n->thread[n->threads++] = L;
}

void lt_notes_trace(uint64_t sp)
{
    s_notes->trace_sp = sp;
}

void lt_notes_return(uint64_t sp, uint64_t ip)
{
    const uint64_t at = sp - sizeof(uint64_t);
    if (!program_readable(at, sizeof(uint64_t)) || *(const uint64_t *)at != ip + 1)
        s_notes->failed = true; /* the unwinder has found it in another way */
    note(at, 0);
}

void lt_notes_step(uint64_t frame, uint64_t cframe)
{
    struct lt_notes *n = s_notes;
    if (n->steps == NOTES_STEPS)
        n->is_long = true;
    else
        n->step[n->steps++] = (struct lt_step){frame, cframe, 0, n->threads > 0};
}

void lt_notes_named(uint32_t keys)
{
    struct lt_notes *n = s_notes;
    while (n->named < n->steps)
        n->step[n->named++].keys = keys;
}
