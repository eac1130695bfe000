/* lua_work.h - the bytes of accesses that belong to a Lua instruction instead of their sites.
 *
 * The accesses of each site are counted elsewhere (steve/kernels/lives/lives.h). Of the accesses to blocks of Lua
 * heaps, many belong not to their sites, but to what lua_lines.h finds: an instruction, a call, or another site. They
 * are subtracted from their sites here, and added there. A modify reads and writes its bytes.
 *
 * The accesses of one word of a segment between two that may fetch an instruction are one *touch*. In an execution, all
 * accesses of a touch belong to the same. So the execution of a touch is counted, and luawork_settle subtracts the
 * accesses from their sites. Where nothing is Lua's, only heap events take time.
 *
 * Memory: O(live blocks + instructions + sites + stacks + accesses of segments).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LINES_LUA_WORK_H
#define STEVE_KERNELS_LINES_LUA_WORK_H

#include "steve/kernels/base/sums.h"
#include "steve/kernels/lines/lua_lines.h"

/* Sums modulo 2^64: those of sites may be negative. */
struct luawork_sums {
    struct luawork_bytes *of; /* n of them */
    size_t n, room;
};

struct luawork;

/* NULL when out of memory. The reader stays the caller's. */
struct luawork *luawork_new(const struct mt_reader *reader);
void luawork_free(struct luawork *w);

/* Begin a shard whose first n threads are as given; of the others nothing is known. Then enter the blocks that live
 * there. False when out of memory, here and below. */
bool luawork_begin_shard(struct luawork *w, const struct luacode_thread *threads, size_t n);
bool luawork_enter(struct luawork *w, const struct mt_live_block *live);
bool luawork_feed(struct luawork *w, const struct mt_batch *batch);

/* Subtract from the sites what executions counted: before the sums are read. */
void luawork_settle(struct luawork *w);
/* By site, by stack, by place of struct luacode. They may have fewer elements than there are of these. */
const struct luawork_sums *luawork_sites(const struct luawork *w);
const struct luawork_sums *luawork_stacks(const struct luawork *w);
const struct luawork_sums *luawork_places(const struct luawork *w);

#endif
