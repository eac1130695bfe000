/* live_blocks.c - the live blocks by slot; see live_blocks.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/base/live_blocks.h"

void live_blocks_free(struct live_blocks *b)
{
    free(b->at);
    free(b->ended);
    free(b->list);
}

bool live_blocks_enter(struct live_blocks *b, const struct mt_live_block *live)
{
    struct live_block *block = live_blocks_reach(b, live->slot);

    if (!block)
        return false;
    *block = (struct live_block){.size = live->size,
                                 .blocks = 1,
                                 .recorded = live->size,
                                 .heap = live->heap,
                                 .container = live->container,
                                 .state = LIVE_BEFORE};
    return true;
}

bool live_blocks_note_ended(struct live_blocks *b, uint32_t slot)
{
    if (!array_reserve(&b->ended, &b->ended_room, b->n_ended + 1, sizeof *b->ended))
        return false;
    b->ended[b->n_ended++] = slot;
    return true;
}

bool live_blocks_list(struct live_blocks *b)
{
    b->n_list = 0;
    for (size_t slot = 0; slot < b->room; slot++) {
        if (b->at[slot].state != LIVE_HERE)
            continue;
        if (!array_reserve(&b->list, &b->list_room, b->n_list + 1, sizeof *b->list))
            return false;
        b->list[b->n_list++] = (struct live_at){b->at[slot], (uint32_t)slot};
    }
    return true;
}

bool live_blocks_merge(struct live_blocks *whole, const struct live_at *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct live_block *block = live_blocks_reach(whole, list[i].slot);

        if (!block)
            return false;
        *block = list[i].block;
    }
    return true;
}
