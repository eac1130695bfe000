/* everything.c - writes small traces with every kind of chunk, definition and event.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/everything.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LUA_ADDR = 0x100000,
    REACH_ADDR = 0x60000,
    POOL = 0x50000,
    MAPPING = 0x800000,
    PAGE = 4096,
    BLOCK = 128
};

struct world {
    struct mt_writer *w;
    uint64_t time;
    uint32_t lua, custom, mapped; /* heaps */
    uint32_t stack[4], site[3], segment[2], name;
};

static uint32_t text(struct world *o, const char *s)
{
    return mt_writer_string(o->w, s, strlen(s));
}

static void tick(struct world *o)
{
    mt_writer_time(o->w, o->time += 17);
}

/* -- definitions -------------------------------------------------------------------------------- */

static void define_stacks(struct world *o)
{
    uint32_t file = text(o, "@all.lua"), function = text(o, "all"), parent = 0;
    for (uint8_t kind = 0; kind < MT_FRAME_KINDS; kind++) {
        const struct mt_frame frame = {.ip = 0x4000 + kind,
                                       .function = function,
                                       .file = file,
                                       .object = o->name,
                                       .line = 7,
                                       .defined = kind == MT_FRAME_LUA ? 3 : 0,
                                       .nth = kind == MT_FRAME_LUA ? 2 : 0,
                                       .kind = kind,
                                       .trace = kind == MT_FRAME_LUA_INLINED ? 5 : 0,
                                       .approximate = kind == MT_FRAME_LUA_INLINED};
        parent = mt_writer_stack(o->w, parent, mt_writer_frame(o->w, &frame));
        o->stack[kind % 4] = parent;
    }
}

static void define_accesses(struct world *o)
{
    for (uint32_t i = 0; i < 3; i++)
        o->site[i] = mt_writer_site(
            o->w,
            &(struct mt_site){.ip = 0x4100 + i, .frame = i, .size = 4u << i, .kind = (uint8_t)(MT_LOAD + i)});
    const struct mt_access one[] = {{o->site[0], 0, 8}},
                           more[] = {{o->site[1], 0, 0}, {o->site[2], 1, -16}, {o->site[0], 0, 24}};
    o->segment[0] = mt_writer_segment(o->w, &(struct mt_segment){one, 1, 1, 2});
    o->segment[1] = mt_writer_segment(o->w, &(struct mt_segment){more, 3, 2, 9});
}

/* Two object files, of which one is unmapped again. */
static void define_modules(struct world *o)
{
    const struct mt_module stays = {.start = 0x4000,
                                    .size = 0x80,
                                    .bias = 0x3000,
                                    .object = o->name,
                                    .build_id_size = 3,
                                    .build_id = {1, 0, 255}};
    const struct mt_module goes = {.start = 0x9000, .size = 0x10, .bias = 0x9000, .object = o->name};
    mt_writer_module(o->w, &stays);
    mt_writer_module(o->w, &goes);
    mt_writer_unmapped(o->w, 0x9000);
}

/* The pages of two mappings, of which one is in two parts, and a range that the program mapped. */
static void take_pages(struct world *o)
{
    static const uint8_t runs[] = {3 << MT_PAGE_STATE_BITS | MT_PAGE_PRESENT | MT_PAGE_ALONE,
                                   1 << MT_PAGE_STATE_BITS, 2 << MT_PAGE_STATE_BITS | MT_PAGE_SWAPPED};
    const struct mt_pages pages = {.time = o->time,
                                   .reason = text(o, "mark"),
                                   .name = o->name,
                                   .page = PAGE,
                                   .threads = 2,
                                   .before = 5 * PAGE,
                                   .after = 6 * PAGE,
                                   .highest = 7 * PAGE,
                                   .reserved = 8 << 20,
                                   .mappings = 3,
                                   .regions = 1};
    const struct mt_mapping first = {.start = MAPPING,
                                     .size = 6 * PAGE,
                                     .rss = 3 * PAGE,
                                     .pss = 3 * PAGE,
                                     .swap = 2 * PAGE,
                                     .flags = MT_MAPPING_READ | MT_MAPPING_WRITE,
                                     .runs_size = sizeof runs,
                                     .runs = runs},
                            more = {.start = MAPPING + 6 * PAGE,
                                    .size = 3 * PAGE,
                                    .flags = MT_MAPPING_CONTINUED,
                                    .runs_size = 1,
                                    .runs = runs},
                            file = {.start = MAPPING + 64 * PAGE, .size = PAGE, .name = o->name};
    mt_writer_pages(o->w, &pages);
    mt_writer_mapping(o->w, o->time, &first);
    mt_writer_mapping(o->w, o->time, &more);
    mt_writer_mapping(o->w, o->time, &file);
    mt_writer_region(o->w, o->time, &(struct mt_region){MAPPING, 4 * PAGE, o->stack[1]});
}

static void define(struct world *o)
{
    mt_writer_info(o->w, "command", "everything");
    o->name = text(o, "here");
    o->lua = mt_writer_heap(o->w, &(struct mt_heap){.id = 0xabc, .kind = MT_HEAP_LUA});
    o->custom = mt_writer_heap(o->w, &(struct mt_heap){.id = 0xdef, .kind = MT_HEAP_CUSTOM});
    o->mapped = mt_writer_heap(o->w, &(struct mt_heap){.id = 1, .kind = MT_HEAP_MMAP});
    define_modules(o);
    define_stacks(o);
    define_accesses(o);
}

/* -- events ------------------------------------------------------------------------------------- */

static uint64_t place(uint32_t i)
{
    return 0x1000 + i * 2 * BLOCK;
}

static void make_blocks(struct world *o)
{
    for (uint32_t how = 0; how <= MT_HOW_CXX_NEW_ARRAY; how++) {
        tick(o);
        mt_writer_block_new(o->w, place(how), BLOCK, 0, (enum mt_how)how, o->stack[how % 4]);
    }
}

static void access_blocks(struct world *o)
{
    for (uint64_t i = 0; i < 12; i++) {
        uint8_t stream[64], *at = mt_stream_put_id(stream, o->segment[0]);
        at = mt_stream_put_word(at, place((uint32_t)i % 5));
        at = mt_stream_put_id(at, o->segment[1]);
        at = mt_stream_put_word(at, place(2) + 8 * (i % 9));
        at = mt_stream_put_word(at, place(3) + 32);
        const size_t size = (size_t)(at - stream);
        assert_int_equal(mt_writer_stream(o->w, stream, size, &o->time, NULL), size);
    }
    /* beyond the end of the block */
    mt_writer_accesses(o->w, &o->site[1], &(uint64_t){place(1) + BLOCK - 4}, 1);
    mt_writer_touch(o->w, MT_STORE, place(2) + 10, 20);
    mt_writer_touch(o->w, MT_LOAD, place(0), 3 * BLOCK);
}

static void resize_and_free(struct world *o)
{
    tick(o);
    mt_writer_block_resize(o->w, place(0), place(20), 3 * BLOCK, 0, MT_HOW_REALLOC, o->stack[1]);
    mt_writer_block_resize(o->w, place(20), place(20), BLOCK, 0, MT_HOW_REALLOC, o->stack[1]);
    mt_writer_block_free(o->w, place(1), 0, o->stack[2]);
    mt_writer_accesses(o->w, &o->site[0], &(uint64_t){place(1) + 4}, 1); /* to freed memory */
    mt_writer_touch(o->w, MT_LOAD, place(1), 8);
    mt_writer_accesses(o->w, &o->site[0], &(uint64_t){place(20) - 12}, 1); /* beside a block */
}

/* A bad free of each kind. */
static void free_badly(struct world *o)
{
    tick(o);
    mt_writer_block_free(o->w, 0x10, 0, o->stack[0]);
    mt_writer_block_free(o->w, place(2) + 8, 0, o->stack[0]);
    mt_writer_block_free(o->w, place(1), 0, o->stack[0]);
    mt_writer_block_free(o->w, place(2), o->custom, o->stack[0]);
    mt_writer_block_free_as(o->w, place(3), 0, MT_HOW_CXX_NEW, o->stack[0]);
}

/* A heap in a heap, whose blocks end with their container; mappings that are cut. */
static void nest_heaps(struct world *o)
{
    tick(o);
    mt_writer_block_new(o->w, POOL, 1000, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_new(o->w, POOL + 100, 50, o->custom, MT_HOW_CUSTOM, o->stack[3]);
    mt_writer_block_new(o->w, POOL + 200, 50, o->custom, MT_HOW_CUSTOM, o->stack[3]);
    mt_writer_block_free(o->w, POOL, 0, 0);
    mt_writer_block_new(o->w, MAPPING, 9 * PAGE, o->mapped, MT_HOW_CUSTOM, 0);
    mt_writer_unmap(o->w, MAPPING + 3 * PAGE, PAGE, o->mapped, 0);
    mt_writer_remap(o->w, MAPPING, 3 * PAGE, MAPPING + 100 * PAGE, 5 * PAGE, o->mapped, 0);
}

static void run_lua(struct world *o)
{
    const uint32_t lines[] = {1, 2, 2, 3};
    tick(o);
    for (uint32_t type = MT_TYPE_STR; type < MT_TYPES; type++) {
        mt_writer_block_new(o->w, LUA_ADDR + 64 * type, 48, o->lua, MT_HOW_LUA, o->stack[type % 4]);
        mt_writer_type(o->w, LUA_ADDR + 64 * type, o->lua, (enum mt_type)type);
    }
    mt_writer_proto(
        o->w, LUA_ADDR + 64 * MT_TYPE_PROTO, o->lua,
        &(struct mt_proto){
            .function = o->name, .file = o->name, .defined = 1, .offset = 16, .count = 4, .lines = lines});
    mt_writer_trace(
        o->w, &(struct mt_trace){
                  .addr = 0x4000, .size = 200, .time = o->time, .heap = o->lua, .number = 5, .frame = 2});
    for (uint32_t vm = 0; vm < MT_VMS; vm++) {
        tick(o);
        mt_writer_state(o->w, o->lua, (enum mt_vm)vm, 5);
        mt_writer_call(o->w, 1 + vm % MT_FRAME_KINDS);
        mt_writer_sample(o->w, o->lua, (enum mt_vm)vm, o->stack[vm % 4], 1 + vm);
    }
}

/* One of each kind that says nothing of a block. */
static void happen(struct world *o)
{
    tick(o);
#define RECORD(NAME, name, code, fields)
#define EVENT_RECORD(NAME, name, code, fields)
#define PLAIN_EVENT(NAME, name, code, fields)                                                                \
    assert_true(mt_writer_event(o->w, &(struct mt_event){.kind = MT_##NAME, .ref = 1, .size = 5}));
#include "memtrace/format/records.def"
}

static void take_snapshot(struct world *o)
{
    mt_writer_snapshot_begin(
        o->w, &(struct mt_snapshot){.name = o->name, .heap = o->lua, .total = 4000, .internal = 100});
    uint32_t name = text(o, "all:7");
    for (uint32_t i = 0; i < 2 * MT_LINK_KINDS; i++) {
        mt_writer_object(o->w, &(struct mt_object){.addr = LUA_ADDR + 64 * i,
                                                   .size = 40 + i,
                                                   .name = i % 3 ? 0 : name,
                                                   .type = (uint8_t)(MT_TYPE_STR + i % 9),
                                                   .dead = i == 5,
                                                   .root = i == 0});
        mt_writer_link(o->w, &(struct mt_link){.from = i,
                                               .to = 2 * MT_LINK_KINDS - 1 - i,
                                               .name = i % 2 ? name : 0,
                                               .kind = (uint8_t)(i % MT_LINK_KINDS),
                                               .weak = i == 3});
    }
    mt_writer_snapshot_end(o->w);
}

/* The same again in another thread, with definitions after the first events. */
static void do_everything(struct world *o, int turns)
{
    for (int turn = 0; turn < turns; turn++) {
        mt_writer_thread(o->w, (uint16_t)(1 + turn));
        mt_writer_mark(o->w, text(o, turn ? "again" : "start"));
        make_blocks(o);
        access_blocks(o);
        resize_and_free(o);
        free_badly(o);
        nest_heaps(o);
        run_lua(o);
        happen(o);
        take_snapshot(o);
        take_pages(o);
        mt_writer_lost(o->w, 3, o->name);
        mt_writer_heap_free(o->w, o->lua, 0);
        access_blocks(o);
    }
}

/* -- traces ------------------------------------------------------------------------------------- */

static const struct mt_writer_options s_options = {
    .chunk_events = 60, .checkpoint_interval = 2, .beside = 16};

static void begin(struct world *o, int fd)
{
    *o = (struct world){.w = mt_writer_new(fd, &s_options, NULL)};
    assert_non_null(o->w);
    define(o);
    do_everything(o, 2);
}

/* One block is reachable, one possibly lost; the others are lost. */
static void reach(struct mt_writer *w)
{
    mt_writer_block_new(w, REACH_ADDR, 64, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_new(w, REACH_ADDR + 64, 64, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_new(w, REACH_ADDR + 128, 64, 0, MT_HOW_MALLOC, 0);
    mt_writer_pointer(w, 0, REACH_ADDR, false);
    mt_writer_pointer(w, REACH_ADDR, REACH_ADDR + 72, false);
    mt_writer_reach(w);
}

static struct bytes end(struct mt_writer *w, int fd)
{
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes file = memory_bytes(fd);
    close(fd);
    return file;
}

struct bytes trace_of_everything(void)
{
    struct world o;
    int fd = memory_file("", 0);
    begin(&o, fd);
    reach(o.w);
    return end(o.w, fd);
}

struct bytes trace_of_a_fork(void)
{
    struct world o;
    int fd = memory_file("", 0), child_fd = memory_file("", 0);
    begin(&o, fd);
    struct mt_writer *child = mt_writer_fork(o.w, child_fd, &s_options, NULL);
    free(end(o.w, fd).data);
    assert_non_null(child);
    o.w = child;
    do_everything(&o, 1);
    int last_fd = memory_file("", 0);
    o.w = mt_writer_continue(child, last_fd, &s_options, NULL);
    free(end(child, child_fd).data);
    assert_non_null(o.w);
    do_everything(&o, 1);
    return end(o.w, last_fd);
}
