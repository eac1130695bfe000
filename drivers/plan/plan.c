/* plan.c - reads and checks an ops file and decodes it into a plan.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/plan/plan.h"
#include "drivers/heap/raw_syscalls.h"
#include "memtrace/ops.h"
#include "memtrace/ops/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* -- handles and their slots -- */

enum { PAGE = 1024, PAGES = (int)(HANDLES_LIMIT / 1024), SPARE_PAGES = 4096, BLOCKS_PER_PAGE = 16 };
enum { NEVER = 0, FREED = 1, FIRST = 2 }; /* entries of the table: these or slot + FIRST */

struct handles {
    uint32_t **pages; /* PAGES pointers; untouched ones take no memory */
    uint64_t page_count, made;
    uint32_t *spare;                             /* free slots */
    size_t spare_first, spare_count, spare_room; /* a ring; a stack if there is no delay */
    uint32_t slots, delay;
};

struct handles *handles_new(uint32_t delay)
{
    struct handles *h = calloc(1, sizeof *h);
    if (h)
        h->delay = delay;
    if (h && !(h->pages = raw_map(PAGES * sizeof *h->pages))) {
        free(h);
        return NULL;
    }
    return h;
}

void handles_delete(struct handles *h)
{
    if (!h)
        return;
    for (size_t i = 0; h->page_count; i++) {
        h->page_count -= h->pages[i] != NULL;
        free(h->pages[i]);
    }
    raw_unmap(h->pages, PAGES * sizeof *h->pages);
    free(h->spare);
    free(h);
}

static enum handle_result add_page(struct handles *h, uint64_t handle)
{
    if (h->page_count > SPARE_PAGES + h->made / BLOCKS_PER_PAGE)
        return HANDLE_TOO_SPARSE;
    h->pages[handle / PAGE] = calloc(PAGE, sizeof **h->pages);
    if (!h->pages[handle / PAGE])
        return HANDLE_NO_MEMORY;
    h->page_count++;
    return HANDLE_OK;
}

static uint32_t next_slot(struct handles *h)
{
    if (h->spare_count <= h->delay)
        return h->slots++;
    h->spare_count--;
    if (!h->delay)
        return h->spare[h->spare_count];
    uint32_t slot = h->spare[h->spare_first];
    h->spare_first = (h->spare_first + 1) % h->spare_room;
    return slot;
}

enum handle_result handles_make(struct handles *h, uint64_t handle, uint32_t *slot)
{
    enum handle_result r = HANDLE_OK;
    if (handle >= HANDLES_LIMIT)
        return HANDLE_TOO_LARGE;
    if (!h->pages[handle / PAGE] && (r = add_page(h, handle)) != HANDLE_OK)
        return r;
    uint32_t *entry = &h->pages[handle / PAGE][handle % PAGE];
    if (*entry >= FIRST)
        return HANDLE_LIVE;
    h->made++;
    *slot = next_slot(h);
    *entry = *slot + FIRST;
    return HANDLE_OK;
}

enum handle_result handles_find(const struct handles *h, uint64_t handle, uint32_t *slot)
{
    if (handle >= HANDLES_LIMIT)
        return HANDLE_TOO_LARGE;
    const uint32_t *page = h->pages[handle / PAGE];
    uint32_t entry = page ? page[handle % PAGE] : NEVER;
    if (entry < FIRST)
        return entry == FREED ? HANDLE_DEAD : HANDLE_UNKNOWN;
    *slot = entry - FIRST;
    return HANDLE_OK;
}

/* Double the room. The ring then begins at index 0. */
static bool grow_spare(struct handles *h)
{
    size_t room = h->spare_room ? 2 * h->spare_room : 1024;
    uint32_t *more = malloc(room * sizeof *more);
    if (!more)
        return false;
    for (size_t i = 0; i < h->spare_count; i++)
        more[i] = h->spare[(h->spare_first + i) % h->spare_room];
    free(h->spare);
    h->spare = more;
    h->spare_first = 0;
    h->spare_room = room;
    return true;
}

static enum handle_result keep_spare(struct handles *h, uint32_t slot)
{
    if (h->spare_count == h->spare_room && !grow_spare(h))
        return HANDLE_NO_MEMORY;
    h->spare[(h->spare_first + h->spare_count++) % h->spare_room] = slot;
    return HANDLE_OK;
}

enum handle_result handles_drop(struct handles *h, uint64_t handle, uint32_t *slot)
{
    enum handle_result r = handles_find(h, handle, slot);
    if (r != HANDLE_OK)
        return r;
    h->pages[handle / PAGE][handle % PAGE] = FREED;
    return keep_spare(h, *slot);
}

uint32_t handles_slots(const struct handles *h)
{
    return h->slots;
}

const char *handles_text(enum handle_result r)
{
    static const char *const texts[] = {
        [HANDLE_OK] = "is live",
        [HANDLE_UNKNOWN] = "is not known: no N of it before",
        [HANDLE_DEAD] = "is not live: it was freed before",
        [HANDLE_LIVE] = "is live already: a second N without an F",
        [HANDLE_TOO_LARGE] = "is too large: handles are below 4294967296",
        [HANDLE_TOO_SPARSE] = "is out of all order: handles must count the blocks from 0",
        [HANDLE_NO_MEMORY] = "cannot be kept: out of memory",
    };
    return texts[r];
}

/* -- the schedule -- */

enum { FILE_PAGE = 4096 };

struct table {
    char *at;
    size_t used, room; /* bytes */
};

struct schedule {
    struct table runs, times;
    uint32_t threads;
    uint32_t thread;                      /* number of the thread of the current run, in the file */
    bool marked;                          /* there is a thread other than 0 */
    uint64_t untimed;                     /* number of operations before the first with a time */
    uint32_t dense[OPS_MOST_THREADS + 1]; /* by number in the file: dense number + 1; 0 = none yet */
    uint32_t last[OPS_MOST_THREADS + 1];  /* last run, likewise */
};

static struct schedule *schedule_new(void)
{
    return calloc(1, sizeof(struct schedule));
}

static void schedule_delete(struct schedule *s)
{
    if (!s)
        return;
    free(s->runs.at);
    free(s->times.at);
    free(s);
}

static void *extend(struct table *t, size_t size)
{
    if (t->used + size > t->room) {
        size_t room = t->room ? 2 * t->room : 64 * size;
        char *more = realloc(t->at, room);
        if (!more)
            return NULL;
        t->at = more;
        t->room = room;
    }
    t->used += size;
    return t->at + t->used - size;
}

static uint32_t run_count(const struct schedule *s)
{
    return (uint32_t)(s->runs.used / sizeof(struct run));
}

/* Link a run to the previous run of its thread. */
static void link_run(struct schedule *s, uint32_t thread, uint32_t run)
{
    if (s->dense[thread])
        ((struct run *)s->runs.at)[s->last[thread]].next = run;
    else
        s->dense[thread] = ++s->threads;
    s->last[thread] = run;
}

/* Record that the thread with this number in the file does the step with this index. False when out of memory or
 * of run numbers. */
static bool schedule_step(struct schedule *s, uint32_t thread, uint64_t step, uint64_t op)
{
    uint32_t count = run_count(s);
    s->marked |= thread != 0;
    if (count && thread == s->thread)
        return true;
    struct run *r = count < NO_RUN ? extend(&s->runs, sizeof *r) : NULL;
    if (!r)
        return false;
    link_run(s, thread, count);
    *r = (struct run){step, op, s->dense[thread] - 1, NO_RUN};
    s->thread = thread;
    return true;
}

static bool put_time(struct schedule *s, uint64_t time)
{
    uint64_t *t = extend(&s->times, sizeof *t);
    if (t)
        *t = time;
    return t;
}

/* Record the time of the next N, F or R. False when out of memory. */
static bool schedule_time(struct schedule *s, uint64_t time)
{
    if (time == 0 && s->times.used == 0) {
        s->untimed++;
        return true;
    }
    for (; s->untimed; s->untimed--)
        if (!put_time(s, 0))
            return false;
    return put_time(s, time);
}

static bool write_table(const struct table *t, int fd, uint64_t at)
{
    for (size_t done = 0; done < t->used;) {
        ssize_t n = pwrite(fd, t->at + done, t->used - done, (off_t)(at + done));
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + FILE_PAGE - 1) / FILE_PAGE * FILE_PAGE;
}

/* Write the tables after the first `bytes` bytes of a file. False on error. */
static bool schedule_write(const struct schedule *s, int fd, uint64_t bytes, struct schedule_facts *f)
{
    *f = (struct schedule_facts){.runs_at = whole_pages(bytes), .latency_at = whole_pages(bytes)};
    if (s->marked) {
        f->threads = s->threads;
        f->runs = run_count(s);
        f->latency_at += whole_pages(s->runs.used);
    }
    f->times = s->times.used / sizeof(uint64_t);
    return (!s->marked || write_table(&s->runs, fd, f->runs_at)) && write_table(&s->times, fd, f->latency_at);
}

/* -- reading -- */

enum { BUFFERED = 65536 };
/* Number of slots that stay free before one is reused, when threads are replayed. Otherwise the new block would
 * often have to wait for the end of the old one. */
enum { SPARE_SLOTS = 4096 };

struct place {
    uint64_t addr, size; /* as in the file */
};

/* An access, or several that touch or overlap: bytes from..to of the block. code 0: none. */
struct use {
    uint32_t slot, code;
    uint64_t from, to;
};

struct reading {
    struct plan *plan;
    const char *path;
    struct handles *handles;
    struct ops_addresses addresses; /* of the live blocks */
    struct place *places;           /* by slot: the live block */
    size_t place_room;
    struct plan_options options;
    struct schedule *schedule;
    struct use last;           /* the last access, to which the next one may be added */
    uint32_t thread;           /* thread of the last operation */
    uint64_t live, blocks, op; /* op: of all operations in the file, for messages */
    uint64_t line;             /* in a text: line of the operation in an error */
    struct step buffer[BUFFERED];
    unsigned buffered;
    char *text;
    unsigned text_size;
};

static bool fail(struct reading *r, const char *what)
{
    snprintf(r->text, r->text_size, "%s: %s", r->path, what);
    return false;
}

/* Report an error of an operation, with its line if the file is text. */
static __attribute__((format(printf, 3, 4))) bool refuse(struct reading *r, const struct op *op,
                                                         const char *format, ...)
{
    char place[32] = "", why[200];
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    if (r->line)
        snprintf(place, sizeof place, "line %" PRIu64 ": ", r->line);
    snprintf(r->text, r->text_size, "%s: %soperation %" PRIu64 " (%c): %s", r->path, place, r->op,
             ops_letter((enum ops_code)op->code), why);
    return false;
}

static bool bad_handle(struct reading *r, const struct op *op, enum handle_result why)
{
    return refuse(r, op, "handle %" PRIu64 " %s", op->handle, handles_text(why));
}

static bool flush(struct reading *r)
{
    const char *p = (const char *)r->buffer;
    size_t left = r->buffered * sizeof r->buffer[0];
    while (left) {
        ssize_t n = write(r->plan->fd, p, left);
        if (n < 0 && errno != EINTR)
            return fail(r, "too large to keep in memory");
        if (n > 0) {
            p += n;
            left -= (size_t)n;
        }
    }
    r->buffered = 0;
    return true;
}

static bool put(struct reading *r, struct step s)
{
    r->buffer[r->buffered++] = s;
    r->plan->facts.steps++;
    return r->buffered < BUFFERED || flush(r);
}

static bool keep_place(struct reading *r, uint32_t slot, const struct op *op)
{
    if (slot >= r->place_room) {
        size_t room = r->place_room ? 2 * r->place_room : 4096;
        struct place *more = realloc(r->places, room * sizeof *more);
        if (!more)
            return fail(r, "out of memory for the table of live blocks");
        r->places = more;
        r->place_room = room;
    }
    r->places[slot] = (struct place){op->addr, op->size};
    return !r->options.shared || ops_addresses_add(&r->addresses, op->addr) ||
           fail(r, "out of memory for the table of live blocks");
}

static void leave_place(struct reading *r, uint32_t slot)
{
    if (r->options.shared)
        ops_addresses_remove(&r->addresses, r->places[slot].addr);
}

static bool too_large(struct reading *r, const struct op *op)
{
    return refuse(r, op, "size %" PRIu64 " is not a size: at most 2^46 bytes in all", op->size);
}

static bool is_too_large(const struct reading *r, uint64_t size)
{
    return size > (uint64_t)1 << 46 || r->live + size > (uint64_t)1 << 46;
}

/* Count a live block of `size` bytes that replaces one of `old` bytes. */
static void count_live(struct reading *r, uint64_t old, uint64_t size)
{
    struct plan_facts *f = &r->plan->facts;
    r->live += size - old;
    f->total_requested += size > old ? size - old : 0;
    if (size > f->largest)
        f->largest = size;
    if (r->live > f->live_peak) {
        f->live_peak = r->live;
        f->peak_op = f->news + f->frees + f->resizes;
    }
}

static bool put_sized(struct reading *r, uint32_t slot, enum step_code code, uint64_t size)
{
    if (size < STEP_BIG)
        return put(r, (struct step){slot, code | (uint32_t)size << STEP_SHIFT});
    return put(r, (struct step){slot, code | STEP_BIG << STEP_SHIFT}) &&
           put(r, (struct step){(uint32_t)size, (uint32_t)(size >> 32)});
}

static bool add_new(struct reading *r, const struct op *op)
{
    uint32_t slot;
    enum handle_result h = handles_make(r->handles, op->handle, &slot);
    if (h != HANDLE_OK)
        return bad_handle(r, op, h);
    if (is_too_large(r, op->size))
        return too_large(r, op);
    if (!keep_place(r, slot, op))
        return false;
    count_live(r, 0, op->size);
    r->blocks++;
    r->plan->facts.news++;
    return put_sized(r, slot, STEP_NEW, op->size);
}

static bool add_resize(struct reading *r, const struct op *op)
{
    uint32_t slot;
    enum handle_result h = handles_find(r->handles, op->handle, &slot);
    if (h != HANDLE_OK)
        return bad_handle(r, op, h);
    if (is_too_large(r, op->size))
        return too_large(r, op);
    count_live(r, r->places[slot].size, op->size);
    leave_place(r, slot);
    if (!keep_place(r, slot, op))
        return false;
    r->plan->facts.resizes++;
    return put_sized(r, slot, STEP_RESIZE, op->size);
}

static bool add_free(struct reading *r, const struct op *op)
{
    uint32_t slot;
    enum handle_result h = handles_drop(r->handles, op->handle, &slot);
    if (h != HANDLE_OK)
        return bad_handle(r, op, h);
    r->live -= r->places[slot].size;
    leave_place(r, slot);
    r->blocks--;
    r->plan->facts.frees++;
    return put(r, (struct step){slot, STEP_FREE});
}

/* Write the pending access, if there is one. */
static bool put_use(struct reading *r)
{
    struct use u = r->last;
    r->last.code = 0;
    if (!u.code)
        return true;
    uint64_t size = u.to - u.from < STEP_BIG ? u.to - u.from : STEP_BIG - 1;
    r->plan->facts.uses++;
    return put(r, (struct step){u.slot, u.code | (uint32_t)size << STEP_SHIFT}) &&
           put(r, (struct step){(uint32_t)u.from, (uint32_t)(u.from >> 32)});
}

/* The part of an access that is in its block. An access that begins outside is omitted. */
static bool add_access(struct reading *r, uint32_t slot, const struct op *op)
{
    const struct place *p = &r->places[slot];
    uint64_t from = op->addr - p->addr, rest = p->size - from;
    uint32_t code = op->code == OP_LOAD ? STEP_READ : STEP_WRITE;
    r->plan->facts.accesses++;
    if (!r->options.accesses || from >= p->size || op->size == 0)
        return true;
    uint64_t to = from + (op->size < rest ? op->size : rest);
    struct use *u = &r->last;
    if (u->code == code && u->slot == slot && from <= u->to && to >= u->from) {
        u->from = from < u->from ? from : u->from;
        u->to = to > u->to ? to : u->to;
        return true;
    }
    if (!put_use(r))
        return false;
    *u = (struct use){slot, code, from, to};
    return true;
}

/* Process an operation on a live block: lock, unlock, and accesses. */
static bool add_use(struct reading *r, const struct op *op)
{
    uint32_t slot;
    enum handle_result h = handles_find(r->handles, op->handle, &slot);
    if (h != HANDLE_OK)
        return bad_handle(r, op, h);
    if (op->code == OP_LOCK) {
        r->plan->facts.locks++;
        return put(r, (struct step){slot, STEP_LOCK});
    }
    if (op->code == OP_UNLOCK) {
        r->plan->facts.unlocks++;
        return put(r, (struct step){slot, STEP_UNLOCK});
    }
    return add_access(r, slot, op);
}

static bool is_access(const struct op *op)
{
    return op->code == OP_LOAD || op->code == OP_STORE || op->code == OP_MODIFY;
}

/* Record thread and time of an operation. */
static bool add_marks(struct reading *r, const struct op *op)
{
    const struct plan_facts *f = &r->plan->facts;
    uint64_t count = f->news + f->frees + f->resizes;
    bool counts = op->code == OP_NEW || op->code == OP_FREE || op->code == OP_RESIZE;
    if (op->thread != r->thread && !put_use(r))
        return false;
    r->thread = op->thread;
    if (r->options.threads && !schedule_step(r->schedule, op->thread, f->steps, count))
        return fail(r, "out of memory for the threads of the file");
    return !counts || schedule_time(r->schedule, op->time) ||
           fail(r, "out of memory for the times of the file");
}

static bool add(struct reading *r, const struct op *op)
{
    if (r->last.code && !is_access(op) && !put_use(r))
        return false;
    if (!add_marks(r, op))
        return false;
    switch (op->code) {
    case OP_NEW:
        return add_new(r, op);
    case OP_FREE:
        return add_free(r, op);
    case OP_RESIZE:
        return add_resize(r, op);
    case OP_COMPACT:
        r->plan->facts.compacts++;
        return put(r, (struct step){0, STEP_COMPACT});
    default:
        return add_use(r, op);
    }
}

static bool read_all(struct reading *r, struct ops_reader *ops)
{
    const struct op *batch;
    size_t n;
    int more;
    while ((more = ops_next(ops, &batch, &n)) == MT_MORE) {
        for (size_t i = 0; i < n; i++, r->op++) {
            r->line = ops_reader_line(ops, i);
            if (!add(r, &batch[i]))
                return false;
        }
    }
    if (more == MT_ERROR)
        return fail(r, ops_reader_error(ops)->text);
    if (r->plan->facts.news == 0)
        return fail(r, "no allocations (N) in it: not an ops file, or an empty one");
    return put_use(r) && flush(r);
}

static bool write_schedule(struct reading *r)
{
    struct plan_facts *f = &r->plan->facts;
    if (!schedule_write(r->schedule, r->plan->fd, f->steps * sizeof(struct step), &f->schedule))
        return fail(r, "too large to keep in memory");
    if (r->options.threads && !f->schedule.threads)
        return fail(r,
                    "does not say which thread does what: make it again by steve ops --threads, or replay it "
                    "with --threads=merge");
    return true;
}

static bool read_opened(struct reading *r, struct ops_reader *ops)
{
    r->handles = handles_new(r->options.threads ? SPARE_SLOTS : 0);
    r->schedule = schedule_new();
    r->plan->fd = memfd_create("steve-replay-plan", MFD_CLOEXEC);
    bool good = ops_addresses_init(&r->addresses) && r->handles && r->schedule && r->plan->fd >= 0
                    ? read_all(r, ops) && write_schedule(r)
                    : fail(r, "out of memory");
    if (good) {
        r->plan->facts.slots = handles_slots(r->handles);
        r->plan->facts.live_at_end = r->live;
        r->plan->facts.blocks_at_end = r->blocks;
        r->plan->facts.shared = r->addresses.shared;
    }
    ops_addresses_free(&r->addresses);
    handles_delete(r->handles);
    schedule_delete(r->schedule);
    free(r->places);
    return good;
}

bool plan_read(struct plan *plan, const char *path, struct plan_options options, char *text,
               unsigned text_size)
{
    struct mt_error error = {0};
    struct reading *r = calloc(1, sizeof *r);
    struct ops_reader *ops = ops_open(path, OPS_UNKNOWN, &error);
    bool good = false;
    *plan = (struct plan){.fd = -1};
    if (r)
        *r = (struct reading){
            .plan = plan, .path = path, .options = options, .text = text, .text_size = text_size};
    if (!r || !ops)
        snprintf(text, text_size, "%s: %s", path, ops ? "out of memory" : error.text);
    else
        good = read_opened(r, ops);
    if (ops)
        ops_close(ops);
    free(r);
    if (!good)
        plan_close(plan);
    return good;
}

bool plan_cut(struct plan *plan, uint64_t ops)
{
    size_t bytes = plan->facts.steps * sizeof(struct step);
    const struct step *steps = mmap(NULL, bytes, PROT_READ, MAP_SHARED, plan->fd, 0);
    uint64_t i = 0;
    if (steps == MAP_FAILED)
        return false;
    for (uint64_t done = 0; i < plan->facts.steps && done < ops; i += step_is_double(steps[i]) ? 2 : 1)
        done += (steps[i].what & STEP_MASK) <= STEP_RESIZE;
    munmap((void *)steps, bytes);
    plan->facts.steps = i;
    return true;
}

void plan_close(struct plan *plan)
{
    if (plan->fd >= 0)
        close(plan->fd);
    plan->fd = -1;
}
