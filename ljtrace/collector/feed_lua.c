/* feed_lua.c - records of LuaJIT: see feed_impl.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/feed_impl.h"
#include <string.h>

const char *feed_luaframe(struct feed *f, const struct raw *r)
{
    uint32_t function = (uint32_t)r->word[4], file = r->word[4] >> 32;
    const char *text = feed_text(r, 5, 0, (uint64_t)function + file);
    if (!text)
        return "Lua frame with strings beyond its end";
    struct mt_frame frame = {
        .ip = r->word[1],
        .line = (uint32_t)r->word[2],
        .defined = r->word[2] >> 32,
        .nth = r->argument,
        .kind = (uint8_t)r->word[3],
        .approximate = r->word[3] >> 8 & 1,
        .trace = r->word[3] >> 32,
        .function = mt_writer_string(f->writer, text, function),
        .file = mt_writer_string(f->writer, text + function, file),
    };
    stacks_define_as(&f->stacks, r->word[0], &frame);
    return NULL;
}

const char *feed_type(struct feed *f, const struct raw *r)
{
    mt_writer_type(f->writer, r->word[0], feed_slot(f, r), (enum mt_type)r->argument);
    return NULL;
}

void feed_forget_states(struct feed *f)
{
    for (uint32_t i = 0; i < f->machine_count; i++)
        f->machines[i].state = MACHINE_UNTOLD;
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

/* The machine with its state at that address, which then is the first; NULL if there is none. */
static inline struct machine *machine_at(struct feed *f, uint64_t addr)
{
    bool first = f->machine_count && f->machines[0].addr == addr;
    return first ? f->machines : find_machine(f, addr);
}

static struct machine *new_machine(struct feed *f, uint64_t addr)
{
    f->machines = grow(f->machines, f->machine_count + 1, sizeof *f->machines);
    struct machine *m = &f->machines[f->machine_count++];
    *m = (struct machine){.addr = addr, .state = MACHINE_UNTOLD};
    return m;
}

const char *feed_machine(struct feed *f, const struct raw *r)
{
    struct machine *m = machine_at(f, r->word[0]);
    if (r->argument > 64 / 4)
        return "machine with more states than there can be";
    if (r->argument == 0) {
        if (m)
            *m = f->machines[--f->machine_count];
        return NULL;
    }
    m = m ? m : new_machine(f, r->word[0]);
    m->heap = r->word[1];
    m->heap_version = 0;
    m->states = r->word[2];
    m->count = r->argument;
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

/* Code that runs often tells what it stores without a look at what was there or where it stores to. False:
 * the heap is not known yet. */
static bool change(struct feed *f, struct machine *m, const raw_word *words, struct mt_change *c)
{
    int32_t state = raw_state_of(words[1]);
    if (!m || m->state == state)
        return true;
    if (m->heap_version != f->heap_version)
        return false;
    m->state = state;
    *c = (struct mt_change){words[0], m->heap_id, state > 0 ? (uint32_t)state : 0, meaning(m, state)};
    return true;
}

size_t feed_change(void *feed, const uint8_t *at, size_t n, struct mt_change *c)
{
    const raw_word *words = (const raw_word *)(at + RAW_STATE_HEADER_BYTES);
    if (*(const raw_half *)at != raw_state_header() || n < RAW_STATE_BYTES)
        return 0;
    return change(feed, machine_at(feed, raw_state_address(words[1])), words, c) ? RAW_STATE_BYTES : 0;
}

const char *feed_vm(struct feed *f, const struct raw *r)
{
    struct mt_change c = {.vm = MT_VMS};
    struct machine *m = machine_at(f, raw_state_address(r->word[1]));
    if (!m)
        return NULL;
    learn_heap(f, m);
    change(f, m, r->word, &c);
    if (c.vm == MT_VMS)
        return NULL;
    feed_time(f, c.uncounted);
    mt_writer_state(f->writer, c.heap, c.vm, c.trace);
    return NULL;
}

const char *feed_lines(struct feed *f, const struct raw *r)
{
    uint64_t n = r->word[0], size = n * sizeof *f->lines;
    const char *lines = n < 1 << 20 ? feed_text(r, 1, 0, size) : NULL;
    if (!lines)
        return "lines beyond their end";
    if (f->line_count + n > f->line_capacity) {
        f->line_capacity = 2 * (f->line_count + (uint32_t)n);
        f->lines = grow(f->lines, f->line_capacity, sizeof *f->lines);
    }
    memcpy(f->lines + f->line_count, lines, size);
    f->line_count += (uint32_t)n;
    return NULL;
}

const char *feed_proto(struct feed *f, const struct raw *r)
{
    uint32_t function = (uint32_t)r->word[3], file = r->word[3] >> 32;
    const char *text = feed_text(r, 4, 0, (uint64_t)function + file);
    if (!text)
        return "prototype with strings beyond its end";
    struct mt_proto p = {
        .function = mt_writer_string(f->writer, text, function),
        .file = mt_writer_string(f->writer, text + function, file),
        .defined = (uint32_t)r->word[2],
        .nth = r->argument,
        .offset = r->word[2] >> 32,
        .count = f->line_count,
        .lines = f->lines,
    };
    mt_writer_proto(f->writer, r->word[0], feed_heap(f, r->word[1]), &p);
    f->line_count = 0;
    return NULL;
}

const char *feed_trace(struct feed *f, const struct raw *r)
{
    struct mt_trace t = {
        .addr = r->word[2],
        .size = r->word[3],
        .time = f->counted + r->word[4],
        .heap = feed_heap(f, r->word[0]),
        .number = (uint32_t)r->word[1],
        .frame = r->word[5] ? stacks_frame(&f->stacks, r->word[5]) : 0,
    };
    mt_writer_trace(f->writer, &t);
    return NULL;
}

const char *feed_call(struct feed *f, const struct raw *r)
{
    uint64_t ip = r->word[0];
    struct feed_call *c = &f->call[ip * 0x9e3779b97f4a7c15ULL >> 56];
    if (f->off)
        return NULL;
    if (c->ip != ip || c->meanings != f->stacks.meanings)
        *c = (struct feed_call){ip, stacks_frame(&f->stacks, ip), f->stacks.meanings};
    mt_writer_call(f->writer, c->frame);
    return NULL;
}

const char *feed_universe(struct feed *f, const struct raw *r)
{
    const char *text = feed_text(r, 5, 0, r->word[4]);
    if (!text)
        return "snapshot with a name beyond its end";
    struct mt_snapshot s = {.name = mt_writer_string(f->writer, text, r->word[4]),
                            .heap = feed_heap(f, r->word[0]),
                            .total = r->word[2],
                            .internal = r->word[3]};
    feed_time(f, r->word[1]);
    universe_begin(&f->universe, f->writer, &s);
    return NULL;
}

const char *feed_name(struct feed *f, const struct raw *r)
{
    const char *text = feed_text(r, 2, 0, r->word[1]);
    if (!text)
        return "name beyond its end";
    universe_name(&f->universe, f->writer, r->word[0], text, r->word[1]);
    return NULL;
}

const char *feed_object(struct feed *f, const struct raw *r)
{
    universe_object(&f->universe, f->writer, r->word, r->argument);
    return NULL;
}

const char *feed_links(struct feed *f, const struct raw *r)
{
    universe_links(&f->universe, f->writer, r->word[0], r->word + 1, r->count - 1);
    return NULL;
}

const char *feed_universe_end(struct feed *f, const struct raw *r)
{
    (void)r;
    universe_end(&f->universe, f->writer);
    return NULL;
}

const char *feed_sample(struct feed *f, const struct raw *r)
{
    if (r->argument >= MT_VMS || r->word[2] == 0)
        return "sample with an unknown state or of no weight";
    feed_time(f, r->word[1]);
    mt_writer_sample(f->writer, r->word[0] ? feed_heap(f, r->word[0]) : 0, (enum mt_vm)r->argument,
                     feed_stack(f, r, 3), r->word[2]);
    return NULL;
}
