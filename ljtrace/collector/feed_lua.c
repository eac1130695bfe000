/* feed_lua.c - the records of LuaJIT. (see feed_impl.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/feed_impl.h"
#include <string.h>

const char *handle_luaframe(struct feed *f, const struct ring_luaframe *r)
{
    struct mt_frame frame = {
        .ip = r->ip,
        .line = r->line,
        .defined = r->defined,
        .nth = r->nth,
        .kind = (uint8_t)r->kind,
        .approximate = r->approximate != 0,
        .trace = r->trace,
        .function = mt_writer_string(f->writer, r->function.at, r->function.bytes),
        .file = mt_writer_string(f->writer, r->file.at, r->file.bytes),
    };
    stacks_define(&f->stacks, r->key, &frame, 1);
    return NULL;
}

const char *handle_type(struct feed *f, const struct ring_type *r)
{
    mt_writer_type(f->writer, r->addr, feed_slot(f, r->slot), (enum mt_type)r->type);
    return NULL;
}

void feed_forget_states(struct feed *f)
{
    for (uint32_t i = 0; i < f->machine_count; i++)
        f->machines[i].state = MACHINE_UNREPORTED;
}

static struct machine *find_machine(struct feed *f, uint64_t addr)
{
    for (uint32_t i = 1; i < f->machine_count; i++)
        if (f->machines[i].addr == addr) {
            struct machine found = f->machines[i];
            f->machines[i] = f->machines[0];
            f->machines[0] = found;
            return f->machines;
        }
    return NULL;
}

/* The VM whose state is at this address, which is moved to the front; NULL if there is none. */
static inline struct machine *machine_at(struct feed *f, uint64_t addr)
{
    bool first = f->machine_count && f->machines[0].addr == addr;
    return first ? f->machines : find_machine(f, addr);
}

static struct machine *new_machine(struct feed *f, uint64_t addr)
{
    f->machines = grow(f->machines, f->machine_count + 1, sizeof *f->machines);
    struct machine *m = &f->machines[f->machine_count++];
    *m = (struct machine){.addr = addr, .state = MACHINE_UNREPORTED};
    return m;
}

const char *handle_machine(struct feed *f, const struct ring_machine *r)
{
    struct machine *m = machine_at(f, r->addr);
    if (r->count > 64 / 4)
        return "machine with more states than there can be";
    if (r->count == 0) {
        if (m)
            *m = f->machines[--f->machine_count];
        return NULL;
    }
    m = m ? m : new_machine(f, r->addr);
    m->heap = r->heap;
    m->heap_version = 0;
    m->states = r->states;
    m->count = r->count;
    return NULL;
}

static enum mt_vm meaning(const struct machine *m, int32_t state)
{
    if (state > 0)
        return MT_VM_TRACE;
    return (uint32_t)~state < m->count ? (enum mt_vm)(m->states >> 4 * ~state & 15) : MT_VM_C;
}

static void learn_heap(struct feed *f, struct machine *m)
{
    if (m->heap_version == f->heap_version)
        return;
    m->heap_id = feed_heap(f, m->heap);
    m->heap_version = f->heap_version;
}

/* Note a change of a VM's state. Generated code writes each of its stores, whether or not it is to such a
 * word or changes the state. Returns false if the heap is not known yet. */
static bool change(struct feed *f, struct machine *m, const struct ring_vm *r, struct mt_change *c)
{
    int32_t state = raw_state_of(r->state);
    if (!m || m->state == state)
        return true;
    if (m->heap_version != f->heap_version)
        return false;
    m->state = state;
    *c = (struct mt_change){r->instructions, m->heap_id, state > 0 ? (uint32_t)state : 0, meaning(m, state)};
    return true;
}

size_t feed_change(void *feed, const uint8_t *at, size_t n, struct mt_change *c)
{
    const raw_word *words = (const raw_word *)(at + RAW_STATE_HEADER_BYTES);
    if (*(const raw_half *)at != raw_state_header() || n < RAW_STATE_BYTES)
        return 0;
    const struct ring_vm r = {words[0], words[1]};
    return change(feed, machine_at(feed, raw_state_address(r.state)), &r, c) ? RAW_STATE_BYTES : 0;
}

const char *handle_vm(struct feed *f, const struct ring_vm *r)
{
    struct mt_change c = {.vm = MT_VMS};
    struct machine *m = machine_at(f, raw_state_address(r->state));
    if (!m)
        return NULL;
    learn_heap(f, m);
    change(f, m, r, &c);
    if (c.vm == MT_VMS)
        return NULL;
    feed_time(f, c.uncounted);
    mt_writer_state(f->writer, c.heap, c.vm, c.trace);
    return NULL;
}

const char *handle_lines(struct feed *f, const struct ring_lines *r)
{
    uint32_t n = r->lines.bytes / (uint32_t)sizeof *f->lines;
    if (f->line_count + n > f->line_capacity) {
        f->line_capacity = 2 * (f->line_count + n);
        f->lines = grow(f->lines, f->line_capacity, sizeof *f->lines);
    }
    memcpy(f->lines + f->line_count, r->lines.at, n * sizeof *f->lines);
    f->line_count += n;
    return NULL;
}

const char *handle_proto(struct feed *f, const struct ring_proto *r)
{
    struct mt_proto p = {
        .function = mt_writer_string(f->writer, r->function.at, r->function.bytes),
        .file = mt_writer_string(f->writer, r->file.at, r->file.bytes),
        .defined = r->defined,
        .nth = r->nth,
        .offset = r->offset,
        .count = f->line_count,
        .lines = f->lines,
    };
    mt_writer_proto(f->writer, r->addr, feed_heap(f, r->heap), &p);
    f->line_count = 0;
    return NULL;
}

const char *handle_trace(struct feed *f, const struct ring_trace *r)
{
    struct mt_trace t = {
        .addr = r->addr,
        .size = r->size,
        .time = f->counted + r->instructions,
        .heap = feed_heap(f, r->heap),
        .number = (uint32_t)r->number,
        .frame = r->start ? stacks_frame(&f->stacks, r->start) : 0,
    };
    mt_writer_trace(f->writer, &t);
    return NULL;
}

const char *handle_call(struct feed *f, const struct ring_call *r)
{
    uint64_t ip = r->ip;
    struct feed_call *c = &f->call[ip * 0x9e3779b97f4a7c15ULL >> 56];
    if (f->off)
        return NULL;
    if (c->ip != ip || c->meanings != f->stacks.meanings)
        *c = (struct feed_call){ip, stacks_frame(&f->stacks, ip), f->stacks.meanings};
    mt_writer_call(f->writer, c->frame);
    return NULL;
}

const char *handle_snapshot(struct feed *f, const struct ring_snapshot *r)
{
    struct mt_snapshot s = {.name = mt_writer_string(f->writer, r->name.at, r->name.bytes),
                            .heap = feed_heap(f, r->heap),
                            .total = r->total,
                            .internal = r->internal};
    static const char attached[] = "attached";
    if (r->name.bytes == sizeof attached - 1 && memcmp(r->name.at, attached, r->name.bytes) == 0)
        f->lua_before += r->total;
    feed_time(f, r->instructions);
    snapshot_begin(&f->snapshot, f->writer, &s);
    return NULL;
}

uint64_t feed_lua_before(const struct feed *f)
{
    return f->lua_before;
}

const char *handle_name(struct feed *f, const struct ring_name *r)
{
    snapshot_name(&f->snapshot, f->writer, r);
    return NULL;
}

const char *handle_object(struct feed *f, const struct ring_object *r)
{
    snapshot_object(&f->snapshot, f->writer, r);
    return NULL;
}

const char *handle_links(struct feed *f, const struct ring_links *r)
{
    snapshot_links(&f->snapshot, f->writer, r);
    return NULL;
}

const char *handle_snapshot_end(struct feed *f, const struct ring_snapshot_end *r)
{
    (void)r;
    snapshot_end(&f->snapshot, f->writer);
    return NULL;
}

void feed_drop_snapshot(struct feed *f)
{
    snapshot_clear(&f->snapshot);
    mt_writer_snapshot_drop(f->writer);
}

const char *handle_sample(struct feed *f, const struct ring_sample *r)
{
    if (r->vm >= MT_VMS || r->weight == 0)
        return "sample with an unknown state or of no weight";
    feed_time(f, r->instructions);
    mt_writer_sample(f->writer, feed_heap(f, r->heap), (enum mt_vm)r->vm,
                     stacks_intern(&f->stacks, r->ips, r->ips_count), r->weight);
    return NULL;
}
