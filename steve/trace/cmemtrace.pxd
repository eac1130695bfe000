# cmemtrace.pxd - Cython's view of memtrace/memtrace.h: the reader of traces.
#
# It declares only what steve uses. The header documents every field and function. The kinds of events are declared in
# kinds.pxi, which steve/part.am makes of memtrace/kinds.def.
#
# SPDX-License-Identifier: GPL-2.0-or-later
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

include "steve/trace/kinds.pxi"


cdef extern from "memtrace/memtrace.h" nogil:
    enum: MT_ERROR, MT_END, MT_MORE
    enum mt_error_code:
        MT_E_NONE, MT_E_IO, MT_E_FORMAT, MT_E_VERSION, MT_E_CORRUPT, MT_E_TRUNCATED, MT_E_MEMORY, MT_E_GROWING
    enum: MT_OPEN_DEFAULT, MT_OPEN_SALVAGE, MT_OPEN_TEXT, MT_OPEN_FREED, MT_OPEN_SNAPSHOTS, MT_OPEN_OVERLAPS
    enum mt_ending:
        MT_ENDING_UNKNOWN, MT_ENDING_LIMIT, MT_ENDINGS
    enum mt_heap_kind:
        MT_HEAP_LUA
    enum mt_how:
        MT_HOWS
    enum mt_badfree:
        MT_BADFREE_MISMATCH, MT_BADFREES

    struct mt_error:
        mt_error_code code
        uint64_t offset
        char text[240]

    struct mt_event:
        uint64_t addr, size, handle, time
        uint64_t old_addr, offset, old_size
        uint32_t ref
        uint16_t thread
        uint8_t kind, how, container
        uint32_t heap, slot

    struct mt_frame:
        uint64_t ip
        uint32_t function, file, object, line, defined, trace, module
        uint16_t nth
        uint8_t kind, approximate

    struct mt_stack:
        uint32_t parent, frame

    struct mt_site:
        uint64_t ip
        uint32_t frame, size
        uint8_t kind

    struct mt_heap:
        uint64_t id
        uint8_t kind

    struct mt_proto:
        uint64_t handle
        uint32_t heap, function, file, defined, offset, count
        uint16_t nth
        const uint32_t *lines

    struct mt_trace:
        uint64_t addr, size, time
        uint32_t heap, number, frame

    struct mt_module:
        uint64_t start, size, bias, mapped, unmapped
        uint32_t object
        uint8_t build_id_size
        uint8_t build_id[64]

    struct mt_pages:
        uint64_t time
        uint32_t reason, name, page, threads
        uint64_t before, after, highest, reserved
        uint32_t mappings, regions, first_mapping, n_mappings, first_region, n_regions

    struct mt_mapping:
        uint64_t start, size, rss, pss, swap, huge
        uint32_t flags, name, runs_size
        const uint8_t *runs

    struct mt_region:
        uint64_t start, size
        uint32_t stack

    struct mt_object:
        uint64_t addr, size
        uint32_t name
        uint8_t type, dead, root

    struct mt_link:
        uint32_t from_ "from"
        uint32_t to, name
        uint8_t kind, weak

    struct mt_snapshot:
        uint32_t name, heap
        uint64_t time, total, internal, event
        const mt_object *objects
        const mt_link *links
        uint32_t n_objects, n_links

    struct mt_totals:
        uint64_t events[1]  # of MT_KINDS; Cython wants a number
        uint64_t instructions, nanoseconds, foreign, dropped, freed

    struct mt_reader_stats_t "mt_reader_stats":
        bint is_text
        mt_ending ending
        mt_totals totals
        uint64_t events, passed, handles, live_slots, unmatched_free, mismatched_free, implied_free, unmatched_access
        uint64_t bytes_read, bytes_total, damaged_chunks, instructions, nanoseconds

    struct mt_reader:
        pass

    const char *mt_badfree_name(mt_badfree b)
    mt_reader *mt_open(const char *path, unsigned flags, mt_error *err)
    uint64_t mt_growing_size(const mt_reader *r)
    void mt_limit_size(mt_reader *r, uint64_t size)
    enum mt_followed:
        MT_FOLLOW_ERROR, MT_FOLLOW_END, MT_FOLLOW_MORE, MT_FOLLOW_WAIT
    mt_followed mt_follow(mt_reader *r)
    void mt_close(mt_reader *r)
    int mt_next(mt_reader *r, const mt_event **events, size_t *n)
    enum: MT_STEP_EVENTS
    struct mt_step:
        uint64_t time
        uint32_t segment
        uint16_t thread, count
    struct mt_batch:
        const mt_step *steps
        const mt_event *events
        size_t n_steps, n_events
        uint64_t count
    int mt_next_batch(mt_reader *r, mt_batch *p)
    void mt_pass_accesses(mt_reader *r)
    void mt_pass_to_last(mt_reader *r, uint32_t n)
    bint mt_passes(const mt_reader *r)
    struct mt_seek_point:
        uint64_t event, handle, offset
    int mt_seek_points(mt_reader *r, const mt_seek_point **points, uint32_t *n)
    int mt_read_range(mt_reader *r, uint32_t first, uint32_t end)
    uint32_t mt_sound_seek_points(mt_reader *r)
    bint mt_met_thread(const mt_reader *r, uint16_t thread)
    uint32_t mt_thread_end(const mt_reader *r)
    struct mt_live_block_t "mt_live_block":
        uint64_t handle, addr, size
        uint32_t heap, slot
        bint container
    void mt_read_checkpoint(mt_reader *r)
    bint mt_survivors(mt_reader *r, uint64_t **ordinals, size_t *n)
    bint mt_has_containers(mt_reader *r)
    uint32_t mt_count_slots(const mt_reader *r)
    bint mt_get_live_block "mt_live_block"(const mt_reader *r, uint32_t slot, mt_live_block_t *out)
    const mt_error *mt_reader_error(const mt_reader *r)
    const char *mt_string(const mt_reader *r, uint32_t id)
    const mt_frame *mt_get_frame "mt_frame"(const mt_reader *r, uint32_t id)
    const mt_stack *mt_get_stack "mt_stack"(const mt_reader *r, uint32_t id)
    const mt_site *mt_get_site "mt_site"(const mt_reader *r, uint32_t id)
    const mt_heap *mt_get_heap "mt_heap"(const mt_reader *r, uint32_t id)
    const mt_snapshot *mt_get_snapshot "mt_snapshot"(const mt_reader *r, uint32_t i)
    uint32_t mt_count_snapshots(const mt_reader *r)
    void mt_forget_snapshot(mt_reader *r, uint32_t i)
    const mt_proto *mt_get_proto "mt_proto"(const mt_reader *r, uint32_t id)
    const mt_trace *mt_get_trace "mt_trace"(const mt_reader *r, uint32_t id)
    uint32_t mt_count_protos(const mt_reader *r)
    uint32_t mt_count_traces(const mt_reader *r)
    const mt_module *mt_get_module "mt_module"(const mt_reader *r, uint32_t id)
    uint32_t mt_count_modules(const mt_reader *r)
    const mt_pages *mt_get_pages "mt_pages"(const mt_reader *r, uint32_t id)
    const mt_mapping *mt_get_mapping "mt_mapping"(const mt_reader *r, uint32_t id)
    const mt_region *mt_get_region "mt_region"(const mt_reader *r, uint32_t id)
    uint32_t mt_count_pages(const mt_reader *r)
    uint32_t mt_count_strings(const mt_reader *r)
    uint32_t mt_count_frames(const mt_reader *r)
    uint32_t mt_count_stacks(const mt_reader *r)
    uint32_t mt_count_sites(const mt_reader *r)
    uint32_t mt_count_heaps(const mt_reader *r)
    uint64_t mt_sample_mean(const mt_reader *r)
    uint64_t mt_sample_every(const mt_reader *r)
    bint mt_info_at(const mt_reader *r, uint32_t i, const char **key, const char **value)
    void mt_get_stats "mt_reader_stats"(const mt_reader *r, mt_reader_stats_t *out)
    const char *mt_damage(const mt_reader *r, uint32_t i)
    int mt_dump(const char *path, unsigned flags, void (*line)(void *ctx, const char *text), void *ctx,
                mt_error *err)
    const char *mt_kind_name(mt_kind k)
    bint mt_kind_has_stack(mt_kind k)
    const char *mt_how_name(mt_how h)
    const char *mt_heap_kind_name(mt_heap_kind k)
    const char *mt_ending_name(mt_ending e)
    enum mt_heap_kind_count "mt_heap_kind":
        MT_HEAP_KINDS
    enum mt_type:
        MT_TYPES
    enum mt_reach:
        MT_REACHES
    enum mt_vm:
        MT_VMS
    enum mt_link_kind:
        MT_LINK_KINDS
    const char *mt_link_kind_name(mt_link_kind k)
    enum mt_frame_kind:
        MT_FRAME_HOST, MT_FRAME_LUA, MT_FRAME_LUA_INLINED, MT_FRAME_VM, MT_FRAME_KINDS
    const char *mt_type_name(mt_type t)
    const char *mt_reach_name(mt_reach r)
    const char *mt_vm_name(mt_vm v)
    const char *mt_frame_kind_name(mt_frame_kind k)
