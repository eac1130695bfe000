/* painter.c - makes the film of a replay.
 *
 * The colour of a cell is mixed from the uses of its bytes. New blocks glow white and freed ones blue; reads and
 * writes have colours of their own; all of these fade. A cell is painted only when its colour changes. If the
 * allocator moves blocks, all blocks are placed again for each frame.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/painter.h"
#include "drivers/film/canvas.h"
#include "drivers/film/frame.h"
#include "drivers/film/heapmap.h"
#include "drivers/film/legend.h"
#include "drivers/film/poster.h"
#include "drivers/film/yuv.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/heap/region.h"
#include "drivers/measure/measure.h"
#include "drivers/run/guard.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TIME_TEXT = 64 };

struct painter {
    struct engine *e;
    struct heapmap map;
    struct frame frame;
    struct poster poster;
    unsigned char *yuv; /* a frame of a film */
    struct frame_facts facts;
    char when[TIME_TEXT];
    bool moves;
    uint64_t allocated, due; /* bytes of N and R so far; time of the next frame, in the film's unit */
    const uint64_t *times;   /* FILM_INSTRUCTIONS: time of each operation; otherwise NULL */
    uint64_t now;            /* current time, in the film's unit */
};

static uint64_t overhead_of(const struct painter *p, const struct block *b)
{
    return p->e->driver->usable ? p->e->driver->usable(b->ref) - b->size : 0;
}

/* Offset of an address from the start of what is drawn. An address that is not drawn gets a place outside of the
 * picture. */
static uint64_t place_of(const struct painter *p, const char *address)
{
    return islands_place(&p->e->shared->job.film.islands, region_offset(address));
}

/* Add or remove the header of the block at `at`, as far as it is in the drawn part. */
static uint64_t header_of(const struct painter *p, const struct block *b, uint64_t at)
{
    uint64_t header = p->e->driver->header ? p->e->driver->header(b->ref) : 0;
    return header < at ? header : at;
}

/* Add a block to the layers that persist, or remove it. */
static void lay(struct painter *p, const struct block *b, const char *address, int sign)
{
    uint64_t at = place_of(p, address), header = header_of(p, b, at);
    heapmap_add(&p->map, LAYER_USED, at, b->size, sign);
    heapmap_add(&p->map, LAYER_OVERHEAD, at - header, header, sign);
    heapmap_add(&p->map, LAYER_OVERHEAD, at + b->size, overhead_of(p, b), sign);
    if (b->fixed)
        heapmap_add(&p->map, LAYER_LOCKED, at, b->size, sign);
}

static bool made(void *ctx, const struct block *b, void *address)
{
    struct painter *p = ctx;
    p->facts.used += b->size;
    if (!guard_made(p->e->shared, p->e->driver, b, address))
        return false;
    if (!address || !region_holds(address, b->size))
        return true;
    heapmap_add(&p->map, LAYER_FRESH, place_of(p, address), b->size, 1);
    if (!p->moves)
        lay(p, b, address, 1);
    return true;
}

static bool freeing(void *ctx, const struct block *b, void *address)
{
    struct painter *p = ctx;
    p->facts.used -= b->size;
    if (b->fixed)
        p->facts.locked -= b->size;
    if (!address || !region_holds(address, b->size))
        return true;
    heapmap_add(&p->map, LAYER_GONE, place_of(p, address), b->size, 1);
    if (!p->moves)
        lay(p, b, address, -1);
    return true;
}

/* Contents are not checked here, because the space run has checked them. */
static bool kept(void *ctx, const struct block *b, void *address, uint64_t bytes)
{
    return true;
}

static void locked(void *ctx, const struct block *b, bool on)
{
    struct painter *p = ctx;
    const char *address = engine_address(p->e, b);
    p->facts.locked += on ? b->size : -b->size;
    if (address && !p->moves && region_holds(address, b->size))
        heapmap_add(&p->map, LAYER_LOCKED, place_of(p, address), b->size, on ? 1 : -1);
}

static void used(void *ctx, const struct block *b, void *address, uint64_t from, uint64_t bytes, bool write)
{
    struct painter *p = ctx;
    if (address && region_holds(address, b->size))
        heapmap_add(&p->map, write ? LAYER_WRITTEN : LAYER_READ, place_of(p, address) + from, bytes, 1);
}

static void lay_list(struct painter *p, const struct block *list, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (list[i].ref)
            lay(p, &list[i], engine_address(p->e, &list[i]), 1);
}

static void lay_all(struct painter *p)
{
    heapmap_clear(&p->map, LAYER_USED);
    heapmap_clear(&p->map, LAYER_OVERHEAD);
    heapmap_clear(&p->map, LAYER_LOCKED);
    lay_list(p, p->e->blocks, p->e->shared->job.facts.slots);
    lay_list(p, p->e->kept, p->e->kept_count);
}

static bool write_bytes(struct painter *p, const void *bytes, size_t left)
{
    const char *at = bytes;
    while (left) {
        ssize_t n = write(FRAMES_FD, at, left);
        if (n < 0 && errno != EINTR) {
            snprintf(p->e->shared->text, sizeof p->e->shared->text, "ffmpeg ended before the film did");
            return false;
        }
        at += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
        p->e->shared->heartbeat++;
    }
    p->e->shared->frames++;
    return true;
}

static bool write_canvas(struct painter *p, const struct canvas *c)
{
    if (p->e->shared->job.film.kind != FILM_MOVIE)
        return write_bytes(p, c->pixels, (size_t)c->width * (size_t)c->height * sizeof(uint32_t));
    yuv_from_canvas(p->yuv, c);
    return write_bytes(p, p->yuv, yuv_bytes(c->width, c->height));
}

/* Advance the film's time to this operation. */
static uint64_t time_now(const struct painter *p)
{
    const struct job *j = &p->e->shared->job;
    if (j->film.time == FILM_OPS)
        return p->e->ops;
    if (j->film.time == FILM_BYTES)
        return p->allocated;
    uint64_t count = j->facts.schedule.times, i = p->e->ops < count ? p->e->ops : count;
    uint64_t t = p->times[i - 1] > j->film.first ? p->times[i - 1] - j->film.first : 0;
    return t > p->now ? t : p->now;
}

/* Write the same frame again as long as the program did no heap operation. */
static bool hold(struct painter *p)
{
    const struct film_size *f = &p->e->shared->job.film;
    if (f->kind != FILM_MOVIE || f->time != FILM_INSTRUCTIONS || !p->e->shared->frames)
        return true;
    for (; p->due + f->per_frame <= p->now; p->due += f->per_frame)
        if (!write_bytes(p, p->yuv, yuv_bytes((int)f->width, (int)f->height)))
            return false;
    return true;
}

/* Must a picture be drawn after this operation? */
static bool is_due(struct painter *p)
{
    const struct film_size *f = &p->e->shared->job.film;
    uint64_t now = p->now;
    bool still = f->kind == FILM_STILL && p->e->ops == f->at;
    if (now < p->due && p->e->ops != p->e->shared->job.total_ops && !still)
        return false;
    p->facts.done = f->total ? (double)now / (double)f->total : 1;
    return true;
}

/* An amount of the film's time as text: "5.4 MiB allocated", "1,500 operations". */
static void time_words(char out[TIME_TEXT], enum film_time unit, uint64_t amount)
{
    char number[NUMBER_TEXT];
    if (unit == FILM_BYTES)
        snprintf(out, TIME_TEXT, "%s allocated", legend_bytes(number, amount));
    else
        snprintf(out, TIME_TEXT, "%s %s", legend_count(number, amount),
                 unit == FILM_OPS ? "operations" : film_time_names[unit]);
}

static void look(struct painter *p)
{
    if (p->moves)
        lay_all(p);
    heapmap_frame(&p->map);
    p->facts.op = p->e->ops;
    p->facts.extent = region_extent(p->e->driver);
    p->facts.resident = region_resident();
    uint32_t islands = p->e->shared->job.film.islands.count;
    p->facts.gaps = islands ? islands - 1 : 0;
    if (p->e->shared->job.film.time != FILM_OPS)
        time_words(p->when, p->e->shared->job.film.time, p->now);
}

static bool paint_poster(struct painter *p)
{
    const struct job *j = &p->e->shared->job;
    char time[TIME_TEXT];
    poster_add(&p->poster, &p->map, p->facts.done);
    if (p->e->ops != j->total_ops)
        return true;
    time_words(time, j->film.time, j->film.total);
    poster_words(&p->poster, p->facts.name, j->film.extent, time);
    return write_canvas(p, &p->poster.canvas);
}

static bool done(void *ctx, char op, uint64_t size)
{
    struct painter *p = ctx;
    enum film_kind kind = p->e->shared->job.film.kind;
    p->allocated += op == 'F' ? 0 : size;
    p->now = time_now(p);
    if (!is_due(p))
        return true;
    if (!hold(p))
        return false;
    p->due = (p->now / p->e->shared->job.film.per_frame + 1) * p->e->shared->job.film.per_frame;
    look(p);
    if (kind == FILM_POSTER)
        return paint_poster(p);
    if (kind == FILM_STILL && p->e->ops != p->e->shared->job.film.at) {
        frame_pass(&p->frame, &p->facts);
        return true;
    }
    frame_paint(&p->frame, &p->map, &p->facts);
    return write_canvas(p, &p->frame.canvas);
}

static bool open_times(struct painter *p, const struct job *j)
{
    const struct schedule_facts *f = &j->facts.schedule;
    if (j->film.time != FILM_INSTRUCTIONS)
        return true;
    long at = raw_syscall(SYS_mmap, 0, (long)(f->times * sizeof *p->times), PROT_READ, MAP_SHARED, PLAN_FD,
                          (long)f->latency_at);
    p->times = (const uint64_t *)at;
    return !raw_failed(at);
}

static bool open_picture(struct painter *p, const struct job *j)
{
    const struct film_size *f = &j->film;
    int width = (int)f->width, height = (int)f->height;
    if (f->kind == FILM_POSTER)
        return poster_open(&p->poster, width, height) &&
               heapmap_open(&p->map, f->extent, (uint64_t)p->poster.rows);
    p->yuv = raw_map(yuv_bytes(width, height));
    return p->yuv && frame_open(&p->frame, width, height, f->extent, f->most, f->layout) &&
           heapmap_open(&p->map, f->extent, frame_cells(&p->frame));
}

void painter_run(struct engine *e)
{
    const struct job *j = &e->shared->job;
    struct painter p = {.e = e, .moves = e->driver->flags & STEVE_MOVES, .due = j->film.per_frame};
    struct watcher w = {&p, made, freeing, kept, locked, used, done};
    p.facts =
        (struct frame_facts){.name = e->driver->name, .when = p.when, .total = j->total_ops, .heap = j->heap};
    if (!open_times(&p, j) || !open_picture(&p, j)) {
        snprintf(e->shared->text, sizeof e->shared->text, "out of memory for the picture");
        e->shared->status = STATUS_FAILED;
        return;
    }
    engine_watched(e, &w);
}
