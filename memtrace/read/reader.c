/* reader.c - `struct mt_reader`: opening, finding out the form, and looking things up.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/read/reader_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_magic(const struct mt_reader *r, size_t at, const char *magic)
{
    return input_available(&r->in) >= at + MAGIC_SIZE &&
           memcmp(input_bytes(&r->in) + at, magic, MAGIC_SIZE) == 0;
}

/* A binary trace: by its magic, a part of it when the file is very short, or when salvaging by its first
 * chunk. */
static bool is_binary(const struct mt_reader *r)
{
    size_t n = input_available(&r->in);
    if (n > 0 && memcmp(input_bytes(&r->in), FILE_MAGIC, n < MAGIC_SIZE ? n : MAGIC_SIZE) == 0)
        return true;
    return r->flags & MT_OPEN_SALVAGE && has_magic(r, FILE_HEADER_SIZE, CHUNK_MAGIC);
}

/* Refuse at once what cannot be text. What might be is found out while reading. */
static int check_text(struct mt_reader *r)
{
    size_t n = input_available(&r->in);
    if (r->flags & MT_OPEN_TEXT)
        return MT_OK;
    if (n == 0)
        return mt_fail(&r->err, MT_E_FORMAT, 0, "is empty, not a memtrace; was the recorder killed at once?");
    const uint8_t *bytes = input_bytes(&r->in);
    if (memchr(bytes, 0, n) && !memmem(bytes, n, ">>> ", 4))
        return mt_fail(&r->err, MT_E_FORMAT, 0, "is not a memtrace: neither .ljt nor text with `>>> ` lines");
    return MT_OK;
}

static int init_state(struct mt_reader *r)
{
    overlay_init(&r->text.overlay);
    bool ok = defs_init(&r->defs) && blockmap_init(&r->text.map) && decoder_init(&r->binary.dec, &r->defs);
    return ok ? MT_OK : mt_fail_memory(&r->err);
}

static int begin(struct mt_reader *r, const char *path)
{
    bool opened = input_open(&r->in, path);
    if (opened)
        input_need(&r->in, FILE_HEADER_SIZE + MAGIC_SIZE);
    if (r->in.err.code != MT_E_NONE) {
        r->err = r->in.err;
        return MT_ERROR;
    }
    if (init_state(r) != MT_OK)
        return MT_ERROR;
    r->stats.is_text = !is_binary(r);
    r->text.lines.number = 1;
    r->stats.bytes_total = r->in.file_size;
    return r->stats.is_text ? check_text(r) : binary_begin(r);
}

struct mt_reader *reader_of_ops(struct input *in, uint32_t version, struct mt_error *err)
{
    struct mt_reader *r = calloc(1, sizeof *r);
    if (!r) {
        input_close(in);
        mt_fail_memory(err);
        return NULL;
    }
    r->in = *in;
    r->of_ops = true;
    r->stats.bytes_total = r->in.file_size;
    if (init_state(r) == MT_OK && binary_begin_chunks(r, version) == MT_OK)
        return r;
    *err = r->err;
    mt_close(r);
    return NULL;
}

struct mt_reader *mt_open(const char *path, unsigned flags, struct mt_error *err)
{
    struct mt_reader *r = calloc(1, sizeof *r);
    if (!r) {
        mt_fail_memory(err);
        return NULL;
    }
    r->in.fd = -1;
    r->flags = flags;
    if (begin(r, path) == MT_OK)
        return r;
    if (err)
        *err = r->err;
    mt_close(r);
    return NULL;
}

uint64_t mt_growing_size(const struct mt_reader *r)
{
    return input_is_growing(&r->in) ? r->in.file_size : 0;
}

void mt_limit_size(struct mt_reader *r, uint64_t size)
{
    input_limit(&r->in, size);
    r->stats.bytes_total = r->in.file_size;
}

void mt_close(struct mt_reader *r)
{
    if (!r)
        return;
    input_close(&r->in);
    defs_free(&r->defs);
    snapshots_free(&r->snapshots);
    blockmap_destroy(&r->text.map);
    overlay_destroy(&r->text.overlay);
    decoder_destroy(&r->binary.dec);
    ZSTD_freeDCtx(r->binary.zstd);
    free(r->binary.raw);
    free(r->binary.seek_points.at);
    free(r->binary.defs.at);
    free(r->binary.containers.list);
    free(r->binary.container_list.list);
    for (uint32_t i = 0; i < r->note_count; i++)
        free(r->notes[i]);
    free(r->notes);
    batch_free(r->batch);
    free(r);
}

static int next(struct mt_reader *r, size_t *n)
{
    if (r->err.code != MT_E_NONE)
        return MT_ERROR;
    return r->stats.is_text ? text_next(r, n) : binary_next(r, n);
}

int mt_next(struct mt_reader *r, const struct mt_event **events, size_t *n)
{
    r->binary.dec.batch = NULL;
    int result = next(r, n);
    *events = r->events;
    if (result == MT_MORE) {
        r->stats.events += *n;
        r->stats.instructions = r->events[*n - 1].time;
    }
    return result;
}

/* The time of the last event of a batch. */
static uint64_t last_time(const struct mt_reader *r)
{
    const struct batch *p = r->batch;
    const struct mt_step *last = &p->steps[p->n_steps - 1];
    return last->segment == MT_STEP_EVENTS ? r->events[p->n_events - 1].time : last->time;
}

static struct mt_batch batch_view(const struct mt_reader *r)
{
    const struct batch *p = r->batch;
    return (struct mt_batch){.steps = p->steps,
                             .places = p->places,
                             .events = r->events,
                             .segments = p->segments,
                             .accesses = p->accesses,
                             .n_steps = p->n_steps,
                             .n_places = p->n_places,
                             .n_events = p->n_events,
                             .n_segments = p->n_segments,
                             .count = p->total};
}

int mt_next_batch(struct mt_reader *r, struct mt_batch *batch)
{
    if (!r->batch && !(r->batch = calloc(1, sizeof *r->batch)))
        return mt_fail_memory(&r->err);
    r->binary.dec.batch = r->batch;
    batch_empty(r->batch);
    size_t n;
    int result = next(r, &n);
    if (result == MT_MORE) {
        if (r->batch->n_steps == 0) /* text, or a word about what was lost */
            batch_events(r->batch, n);
        r->stats.events += r->batch->total;
        r->stats.instructions = last_time(r);
        *batch = batch_view(r);
    }
    return result;
}

void mt_pass_accesses(struct mt_reader *r)
{
    r->binary.pass_until = UINT64_MAX;
}

bool mt_passes(const struct mt_reader *r)
{
    return r->binary.dec.rare_only;
}

const struct mt_error *mt_reader_error(const struct mt_reader *r)
{
    return &r->err;
}

void reader_note(struct mt_reader *r, uint64_t offset, const char *what)
{
    r->stats.damaged_chunks++;
    if (r->note_count >= MAX_NOTES)
        return;
    if (!r->notes)
        r->notes = calloc(MAX_NOTES, sizeof *r->notes);
    char *text = NULL;
    if (!r->notes ||
        asprintf(&text, "%s %" PRIu64 ": %s", r->stats.is_text ? "line" : "offset", offset, what) < 0)
        return;
    r->notes[r->note_count++] = text;
}

const char *mt_damage(const struct mt_reader *r, uint32_t i)
{
    return i < r->note_count ? r->notes[i] : NULL;
}

/* -- definitions -- */

const char *mt_string(const struct mt_reader *r, uint32_t id)
{
    return defs_string(&r->defs, id);
}

const struct mt_frame *mt_frame(const struct mt_reader *r, uint32_t id)
{
    return table_at(&r->defs.frames, id);
}

const struct mt_stack *mt_stack(const struct mt_reader *r, uint32_t id)
{
    return table_at(&r->defs.stacks, id);
}

const struct mt_site *mt_site(const struct mt_reader *r, uint32_t id)
{
    return table_at(&r->defs.sites, id);
}

const struct mt_heap *mt_heap(const struct mt_reader *r, uint32_t id)
{
    return table_at(&r->defs.heaps, id);
}

const struct mt_proto *mt_proto(const struct mt_reader *r, uint32_t id)
{
    return table_at(&r->defs.protos, id);
}

const struct mt_trace *mt_trace(const struct mt_reader *r, uint32_t id)
{
    return table_at(&r->defs.traces, id);
}

const struct mt_snapshot *mt_snapshot(const struct mt_reader *r, uint32_t i)
{
    return i < r->snapshots.count ? &r->snapshots.items[i] : NULL;
}

uint32_t mt_count_snapshots(const struct mt_reader *r)
{
    return r->snapshots.count;
}

void mt_forget_snapshot(struct mt_reader *r, uint32_t i)
{
    if (i < r->snapshots.count)
        snapshot_forget(&r->snapshots.items[i]);
}

uint32_t mt_count_protos(const struct mt_reader *r)
{
    return r->defs.protos.count;
}

const struct mt_module *mt_module(const struct mt_reader *r, uint32_t id)
{
    return table_at(&r->defs.modules, id);
}

uint32_t mt_count_modules(const struct mt_reader *r)
{
    return r->defs.modules.count;
}

const struct mt_pages *mt_pages(const struct mt_reader *r, uint32_t id)
{
    return table_at(&r->defs.pages, id);
}

const struct mt_mapping *mt_mapping(const struct mt_reader *r, uint32_t id)
{
    return table_at(&r->defs.mappings, id);
}

const struct mt_region *mt_region(const struct mt_reader *r, uint32_t id)
{
    return table_at(&r->defs.regions, id);
}

uint32_t mt_count_pages(const struct mt_reader *r)
{
    return r->defs.pages.count;
}

uint32_t mt_count_traces(const struct mt_reader *r)
{
    return r->defs.traces.count;
}

uint32_t mt_count_strings(const struct mt_reader *r)
{
    return r->defs.strings.count;
}

uint32_t mt_count_frames(const struct mt_reader *r)
{
    return r->defs.frames.count;
}

uint32_t mt_count_stacks(const struct mt_reader *r)
{
    return r->defs.stacks.count;
}

uint32_t mt_count_sites(const struct mt_reader *r)
{
    return r->defs.sites.count;
}

uint32_t mt_count_heaps(const struct mt_reader *r)
{
    return r->defs.heaps.count;
}

bool mt_info_at(const struct mt_reader *r, uint32_t i, const char **key, const char **value)
{
    const struct info *info = table_at(&r->defs.infos, i);
    if (!info)
        return false;
    *key = defs_string(&r->defs, info->key);
    *value = defs_string(&r->defs, info->value);
    return true;
}

const char *mt_info(const struct mt_reader *r, const char *key)
{
    const char *k, *v, *last = "";
    for (uint32_t i = 0; mt_info_at(r, i, &k, &v); i++)
        if (strcmp(k, key) == 0)
            last = v;
    return last;
}

uint64_t mt_sample_mean(const struct mt_reader *r)
{
    return r->defs.sample.mean;
}

uint64_t mt_sample_every(const struct mt_reader *r)
{
    return r->defs.sample.every;
}

void mt_reader_stats(const struct mt_reader *r, struct mt_reader_stats *out)
{
    *out = r->stats;
    out->bytes_read = r->in.file_bytes;
    if (!r->stats.is_text) {
        out->passed = r->binary.dec.passed;
        out->handles = r->binary.dec.handles;
        out->live_slots = r->binary.dec.live;
        out->unmatched_free = r->binary.dec.unmatched_frees;
        out->mismatched_free = r->binary.dec.mismatched_frees;
    }
}

/* -- a trace that its recorder still writes --
 *
 * The file may end inside a chunk at any moment, and a chunk can be decoded only as a whole. So reading stops before the
 * first chunk that is not there completely, which the chunk headers show. */

/* Is there a whole header at an offset? The file may have grown since its size was read, so nothing after that counts. */
static bool has_header(const struct mt_reader *r, uint64_t at)
{
    return r->in.file_size >= at && r->in.file_size - at >= CHUNK_HEADER_SIZE;
}

/* The end of the last chunk that is completely there, from an offset where a chunk begins. */
static uint64_t end_of_chunks(const struct mt_reader *r, uint64_t at)
{
    struct chunk_header h;
    while (has_header(r, at) && reader_header_at(r, at, &h) &&
           h.stored_size <= r->in.file_size - at - CHUNK_HEADER_SIZE)
        at += CHUNK_HEADER_SIZE + h.stored_size;
    return at;
}

/* Is the header at an offset invalid? Reading it reports the damage. */
static bool is_damaged(const struct mt_reader *r, uint64_t at)
{
    struct chunk_header h;
    return has_header(r, at) && !reader_header_at(r, at, &h);
}

enum mt_followed mt_follow(struct mt_reader *r)
{
    struct binary_reader *b = &r->binary;
    const uint64_t from = b->following ? b->stop : FILE_HEADER_SIZE;
    if (r->err.code == MT_E_NONE && !reader_is_plain(r))
        mt_fail(&r->err, MT_E_FORMAT, 0, "cannot be followed: it is not a plain .ljt file");
    if (r->err.code != MT_E_NONE || b->followed)
        return r->err.code != MT_E_NONE ? MT_FOLLOW_ERROR : MT_FOLLOW_END;
    const bool written = input_is_locked(&r->in); /* asked before the size, so that nothing is missed */
    input_extend(&r->in);
    r->stats.bytes_total = r->in.file_size;
    b->stop = end_of_chunks(r, from);
    b->followed = !written || is_damaged(r, b->stop);
    if (b->followed)
        b->stop = UINT64_MAX;
    b->following = true;
    return b->stop > from ? MT_FOLLOW_MORE : MT_FOLLOW_WAIT;
}
