/* roundtrip_model.h - the expected events of a trace, from a slow model of writer and reader.
 *
 * Live and freed blocks are in arrays that are searched linearly, so that hardly anything can be wrong. Each function
 * does to the model what the writer's function of the same name does to the trace. Two things are not modelled: the
 * order in which several overlapped blocks are freed, which the writer may choose, and heaps in blocks of other
 * heaps.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Live and dead blocks are arrays that are searched from end to end, so that hardly anything can be wrong.
 * Each function does to the model what the writer's of the like name does to the trace. What the writer is
 * free to choose, the order in which several overlapped blocks are freed, is not modelled; nor are heaps in
 * other heaps' blocks.
 */
#ifndef ROUNDTRIP_MODEL_H
#define ROUNDTRIP_MODEL_H

#include "memtrace/test/support.h"

enum { MAX_LIVE = 4096, MAX_DEAD = 65536, PARTS = 4096 };

struct model {
    struct mt_event live[MAX_LIVE]; /* NEW events of live blocks by slot; kind MT_KINDS = free slot */
    uint32_t free_slots[MAX_LIVE];
    uint32_t used, free_count;
    struct mt_event dead[MAX_DEAD]; /* addr, size (of what is left), handle, heap, old_addr (of the whole) */
    uint32_t dead_count;
    uint64_t handles, time, foreign, freed;
    uint16_t thread;
    struct mt_event *expected; /* expected events; freed with free() */
    size_t count, capacity;
};

/* Expect an event of this kind at the model's time, by its thread. The caller fills in the rest. */
struct mt_event *model_expect(struct model *m, enum mt_kind kind);

/* Does the range overlap at most one live block, other than that in slot `except`? Sets *slot if it overlaps one. */
bool model_overlapped(const struct model *m, uint64_t addr, uint64_t size, uint32_t except, uint32_t *slot);
/* The slot of the block of `heap` that begins at addr, or UINT32_MAX. */
uint32_t model_slot_at(const struct model *m, uint64_t addr, uint32_t heap);

void model_new(struct model *m, uint64_t addr, uint64_t size, uint32_t heap, uint8_t how, uint32_t stack);
void model_resize(struct model *m, uint32_t slot, uint64_t addr, uint64_t size, uint32_t stack);
/* implied: because another block overlaps it */
void model_free(struct model *m, uint32_t slot, uint32_t stack, bool implied);
/* A free of an address that is no block of that heap. */
void model_bad_free(struct model *m, uint64_t addr, uint32_t heap, uint32_t stack);
/* A free, by a function of this family, of a block that may be of another; MT_HOWS = any. */
void model_mismatch(struct model *m, uint32_t slot, enum mt_how how, uint32_t stack);

/* Times of accesses are those of the last rare event or chunk start, and are not modelled. */
void model_access(struct model *m, enum mt_kind kind, uint32_t site, uint64_t size, uint64_t addr);
void model_touch(struct model *m, enum mt_kind kind, uint64_t addr, uint64_t size);

#endif
