/* camera.c - films a replay: follows the heap in a map of cells, and sends scenes.
 *
 * If the allocator moves blocks, all blocks are placed again for each scene.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/camera.h"
#include "drivers/film/geometry.h"
#include "drivers/film/heapmap.h"
#include "drivers/film/look.h"
#include "drivers/film/scene.h"
#include "drivers/film/sites.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/heap/region.h"
#include "drivers/measure/measure.h"
#include "drivers/run/guard.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct camera {
    struct engine *e;
    struct heapmap map;
    int side;        /* of a cell in a frame, in pixels */
    uint32_t *looks; /* of all cells */
    struct scene scene;
    bool moves;
    uint64_t allocated, due; /* bytes of N and R so far; time of the next frame, in the film's unit */
    const uint64_t *times;   /* FILM_INSTRUCTIONS: time of each operation; otherwise NULL */
    const char *sites;       /* FILM_SITE: digits of the blocks in their order (sites.h); otherwise NULL */
    uint64_t blocks;         /* number of N so far */
    uint64_t now;            /* current time, in the film's unit */
};

/* Position of the current time in the film's time, 0..1. */
static double done_part(const struct camera *k)
{
    uint64_t total = k->e->shared->job.film.total;
    return total ? (double)k->now / (double)total : 1;
}

/* The value of a block by which it has its colour (look.h). */
static uint32_t value_of(const struct camera *k, const struct block *b)
{
    switch (k->e->shared->job.film.colour) {
    case FILM_AGE:
        return b->tag;
    case FILM_SIZE:
        return value_of_size(b->size);
    default:
        return 0;
    }
}

static uint64_t overhead_of(const struct camera *k, const struct block *b)
{
    return k->e->driver->usable ? k->e->driver->usable(b->ref) - b->size : 0;
}

/* Offset of an address from the start of what is drawn. An address that is not drawn gets a place outside of the
 * picture. */
static uint64_t place_of(const struct camera *k, const char *address)
{
    return islands_place(&k->e->shared->job.film.islands, region_offset(address));
}

/* Add or remove the header of the block at `at`, as far as it is in the drawn part. */
static uint64_t header_of(const struct camera *k, const struct block *b, uint64_t at)
{
    uint64_t header = k->e->driver->header ? k->e->driver->header(b->ref) : 0;
    return header < at ? header : at;
}

/* Add a block to the layers that persist, or remove it. */
static void lay(struct camera *k, const struct block *b, const char *address, int sign)
{
    uint64_t at = place_of(k, address), header = header_of(k, b, at);
    heapmap_add(&k->map, LAYER_USED, at, b->size, sign);
    if (k->sites)
        heapmap_add(&k->map, LAYER_SITE + b->tag - 1, at, b->size, sign);
    else if (k->e->shared->job.film.colour != FILM_STATE)
        heapmap_add(&k->map, LAYER_VALUE, at, b->size, sign * (int64_t)value_of(k, b));
    heapmap_add(&k->map, LAYER_OVERHEAD, at - header, header, sign);
    heapmap_add(&k->map, LAYER_OVERHEAD, at + b->size, overhead_of(k, b), sign);
    if (b->fixed)
        heapmap_add(&k->map, LAYER_LOCKED, at, b->size, sign);
}

/* The tag of a block that was just made: by site its layer, from 1 on, else the time. */
static uint32_t tag_of_next(struct camera *k)
{
    const struct job *j = &k->e->shared->job;
    if (!k->sites)
        return value_of_time(done_part(k));
    char digit = k->blocks < j->sites_blocks ? k->sites[k->blocks] : '9';
    k->blocks++;
    return 1 + site_of_digit(digit, &j->film);
}

static bool made(void *ctx, struct block *b, void *address)
{
    struct camera *k = ctx;
    if (!b->tag)
        b->tag = tag_of_next(k);
    k->scene.used += b->size;
    if (!guard_made(k->e->shared, k->e->driver, b, address))
        return false;
    if (!address || !region_holds(address, b->size))
        return true;
    heapmap_add(&k->map, LAYER_FRESH, place_of(k, address), b->size, 1);
    if (!k->moves)
        lay(k, b, address, 1);
    return true;
}

static bool freeing(void *ctx, const struct block *b, void *address)
{
    struct camera *k = ctx;
    k->scene.used -= b->size;
    if (b->fixed)
        k->scene.locked -= b->size;
    if (!address || !region_holds(address, b->size))
        return true;
    heapmap_add(&k->map, LAYER_GONE, place_of(k, address), b->size, 1);
    if (!k->moves)
        lay(k, b, address, -1);
    return true;
}

/* Contents are not checked here, because the space run has checked them. */
static bool kept(void *ctx, const struct block *b, void *address, uint64_t bytes)
{
    return true;
}

static void locked(void *ctx, const struct block *b, bool on)
{
    struct camera *k = ctx;
    const char *address = engine_address(k->e, b);
    k->scene.locked += on ? b->size : -b->size;
    if (address && !k->moves && region_holds(address, b->size))
        heapmap_add(&k->map, LAYER_LOCKED, place_of(k, address), b->size, on ? 1 : -1);
}

static void used(void *ctx, const struct block *b, void *address, uint64_t from, uint64_t bytes, bool write)
{
    struct camera *k = ctx;
    if (address && region_holds(address, b->size))
        heapmap_add(&k->map, write ? LAYER_WRITTEN : LAYER_READ, place_of(k, address) + from, bytes, 1);
}

static void lay_list(struct camera *k, const struct block *list, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (list[i].ref)
            lay(k, &list[i], engine_address(k->e, &list[i]), 1);
}

static void lay_all(struct camera *k)
{
    heapmap_clear(&k->map, LAYER_USED);
    heapmap_clear(&k->map, LAYER_OVERHEAD);
    heapmap_clear(&k->map, LAYER_LOCKED);
    for (int i = LAYER_VALUE; i < LAYER_FRESH; i++)
        heapmap_clear(&k->map, (enum heap_layer)i);
    lay_list(k, k->e->blocks, k->e->shared->job.facts.slots);
    lay_list(k, k->e->kept, k->e->kept_count);
}

static bool send_bytes(struct camera *k, const void *bytes, size_t left)
{
    const char *at = bytes;
    while (left) {
        ssize_t n = write(FRAMES_FD, at, left);
        if (n < 0 && errno != EINTR) {
            snprintf(k->e->shared->text, sizeof k->e->shared->text,
                     "ffmpeg or the program that draws ended before the film did");
            return false;
        }
        at += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
        k->e->shared->heartbeat++;
    }
    return true;
}

/* Send a scene, with the looks of its cells if it has some. */
static bool send_scene(struct camera *k, enum scene_kind kind, uint64_t cells)
{
    k->scene.kind = kind;
    k->scene.cells = cells;
    k->e->shared->frames += kind != SCENE_STEP;
    return send_bytes(k, &k->scene, sizeof k->scene) && send_bytes(k, k->looks, cells * sizeof *k->looks);
}

/* Advance the film's time to this operation. */
static uint64_t time_now(const struct camera *k)
{
    const struct job *j = &k->e->shared->job;
    if (j->film.time == FILM_OPS)
        return k->e->ops;
    if (j->film.time == FILM_BYTES)
        return k->allocated;
    uint64_t count = j->facts.schedule.times, i = k->e->ops < count ? k->e->ops : count;
    uint64_t t = k->times[i - 1] > j->film.first ? k->times[i - 1] - j->film.first : 0;
    return t > k->now ? t : k->now;
}

/* Show the same frame again as long as the program did no heap operation. */
static bool hold(struct camera *k)
{
    const struct film_size *f = &k->e->shared->job.film;
    if (f->kind != FILM_MOVIE || f->time != FILM_INSTRUCTIONS || !k->e->shared->frames)
        return true;
    for (; k->due + f->per_frame <= k->now; k->due += f->per_frame)
        if (!send_scene(k, SCENE_AGAIN, 0))
            return false;
    return true;
}

/* Must a picture be drawn after this operation? */
static bool is_due(struct camera *k)
{
    const struct film_size *f = &k->e->shared->job.film;
    uint64_t now = k->now;
    bool still = f->kind == FILM_STILL && k->e->ops == f->at;
    if (now < k->due && k->e->ops != k->e->shared->job.total_ops && !still)
        return false;
    k->scene.done = done_part(k);
    return true;
}

static void look(struct camera *k)
{
    if (k->moves)
        lay_all(k);
    heapmap_frame(&k->map);
    k->scene.op = k->e->ops;
    k->scene.extent = region_extent(k->e->driver);
    k->scene.resident = region_resident();
    uint32_t islands = k->e->shared->job.film.islands.count;
    k->scene.gaps = islands ? islands - 1 : 0;
    k->scene.now = k->now;
    k->scene.cell_bytes = k->map.cell_bytes;
}

static struct look_by look_by(const struct camera *k)
{
    return (struct look_by){k->e->shared->job.film.colour, (float)value_of_time(k->scene.done)};
}

/* A column of the poster. The last one completes it. */
static bool show_column(struct camera *k)
{
    for (uint64_t i = 0; i < k->map.cells; i++)
        k->looks[i] = look_in_poster(&k->map.cell[i], look_by(k));
    return send_scene(k, k->e->ops == k->e->shared->job.total_ops ? SCENE_SHOWN : SCENE_STEP, k->map.cells);
}

static bool show_frame(struct camera *k)
{
    for (uint64_t i = 0; i < k->map.cells; i++)
        k->looks[i] = look_of_cell(&k->map.cell[i], look_by(k), k->side);
    return send_scene(k, SCENE_SHOWN, k->map.cells);
}

static bool done(void *ctx, char op, uint64_t size)
{
    struct camera *k = ctx;
    enum film_kind kind = k->e->shared->job.film.kind;
    k->allocated += op == 'F' ? 0 : size;
    k->now = time_now(k);
    if (!is_due(k))
        return true;
    if (!hold(k))
        return false;
    k->due = (k->now / k->e->shared->job.film.per_frame + 1) * k->e->shared->job.film.per_frame;
    look(k);
    if (kind == FILM_POSTER)
        return show_column(k);
    bool passes = kind == FILM_STILL && k->e->ops != k->e->shared->job.film.at;
    return passes ? send_scene(k, SCENE_STEP, 0) : show_frame(k);
}

static bool open_times(struct camera *k, const struct job *j)
{
    const struct schedule_facts *f = &j->facts.schedule;
    if (j->film.time != FILM_INSTRUCTIONS)
        return true;
    long at = raw_syscall(SYS_mmap, 0, (long)(f->times * sizeof *k->times), PROT_READ, MAP_SHARED, PLAN_FD,
                          (long)f->latency_at);
    k->times = (const uint64_t *)at;
    return !raw_failed(at);
}

static bool open_map(struct camera *k, const struct film_size *f)
{
    bool poster = f->kind == FILM_POSTER;
    struct geometry g = poster ? geometry_of_poster(f) : geometry_of_frame(f);
    uint64_t cells = (uint64_t)g.rows * (poster ? 1 : (uint64_t)g.columns);
    k->side = g.cell;
    k->looks = raw_map(cells * sizeof *k->looks);
    if (!k->looks || !heapmap_open(&k->map, f->extent, cells))
        return false;
    k->map.by_site = k->sites != NULL;
    return true;
}

static bool send_head(struct camera *k, const struct job *j)
{
    struct scene_head h = {.heap = j->heap, .total_ops = j->total_ops, .film = j->film};
    snprintf(h.name, sizeof h.name, "%s", k->e->driver->name);
    return send_bytes(k, &h, sizeof h);
}

void camera_run(struct engine *e)
{
    const struct job *j = &e->shared->job;
    struct camera k = {.e = e, .moves = e->driver->flags & STEVE_MOVES, .due = j->film.per_frame};
    struct watcher w = {&k, made, freeing, kept, locked, used, done};
    if (j->film.colour == FILM_SITE)
        k.sites = sites_map(j);
    if (j->film.colour == FILM_SITE && !k.sites) {
        snprintf(e->shared->text, sizeof e->shared->text, "the file of sites cannot be read");
        e->shared->status = STATUS_FAILED;
    } else if (!open_times(&k, j) || !open_map(&k, &j->film)) {
        snprintf(e->shared->text, sizeof e->shared->text, "out of memory for the picture");
        e->shared->status = STATUS_FAILED;
    } else if (!send_head(&k, j)) {
        e->shared->status = STATUS_FAILED;
    } else {
        engine_watched(e, &w);
    }
}
