/* result.c - writes allocstats result files.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/commands/result.h"
#include "drivers/base/confinement.h"
#include "drivers/base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

int result_begin(struct result_file *f, const struct session *s)
{
    const char *const inputs[] = {s->options->ops, s->job.driver, NULL};
    /* a call of the six arguments that adds a record reads the file, and checks it then */
    const bool any = s->options->force || (s->options->legacy && s->options->op_limit);
    int status = outfile_resolve(&f->file, s->options->output, inputs, any ? OUTFILE_ANY : OUTFILE_RESULT);
    if (status != EXIT_CONTINUE)
        return status;
    if (!outfile_begin(&f->file))
        return EXIT_BAD;
    f->out = fopen(f->file.temporary, "we");
    if (f->out)
        return EXIT_CONTINUE;
    fprintf(stderr, "steve-replay: %s: cannot be written: %s\n", f->file.path, strerror(errno));
    outfile_abandon(&f->file);
    return EXIT_BAD;
}

void result_abandon(struct result_file *f)
{
    fclose(f->out);
    f->out = NULL;
    outfile_abandon(&f->file);
}

bool result_finish(struct result_file *f)
{
    bool good = fflush(f->out) == 0 && !ferror(f->out);
    good = fclose(f->out) == 0 && good;
    f->out = NULL;
    if (good)
        return outfile_finish(&f->file);
    fprintf(stderr, "steve-replay: %s: cannot be written: %s\n", f->file.path, strerror(errno));
    outfile_abandon(&f->file);
    return false;
}

static void put_text(FILE *out, const char *name, const char *text)
{
    fprintf(out, "%s = ", name);
    json_string(out, text);
    putc('\n', out);
}

static void put_number(FILE *out, const char *name, uint64_t value)
{
    fprintf(out, "%s = %" PRIu64 "\n", name, value);
}

static void put_truth(FILE *out, const char *name, bool value)
{
    fprintf(out, "%s = %s\n", name, value ? "True" : "False");
}

static void put_per_op(FILE *out, const char *name, uint64_t nanoseconds, uint64_t ops)
{
    if (ops)
        fprintf(out, "%s = %.3f\n", name, (double)nanoseconds / (double)ops);
}

/* The list of CPU times of all complete replays. */
static void put_passes(FILE *out, const struct measurements *r)
{
    if (!r->total_ops)
        return;
    fprintf(out, "replay_times_per_op = [");
    for (uint32_t i = 0; i < r->passes; i++)
        fprintf(out, "%s%.3f", i ? ", " : "", (double)r->pass_cpu[i] / (double)r->total_ops);
    fprintf(out, "]\n");
}

static void put_run(FILE *out, const struct session *s, const struct measurements *r)
{
    const struct plan_facts *f = &s->plan.facts;
    put_number(out, "live_peak", f->live_peak);
    put_number(out, "total_requested", f->total_requested);
    put_number(out, "op_count", f->news + f->frees + f->resizes);
    put_number(out, "new_count", f->news);
    put_number(out, "free_count", f->frees);
    put_number(out, "resize_count", f->resizes);
    put_number(out, "lock_count", f->locks);
    put_number(out, "total_ops", r->total_ops);
    put_number(out, "killpercent", s->job.kill_percent);
    put_number(out, "seed", s->job.seed);
    put_number(out, "rounds", r->rounds);
    put_number(out, "killed", r->killed);
    put_number(out, "odd_locks", r->odd_locks);
    put_number(out, "point_interval", s->job.interval);
    put_number(out, "highest_extent", r->highest);
    put_number(out, "most_resident", r->resident);
    put_truth(out, "heap_raised", s->heap_raised);
}

static void put_driver(FILE *out, const struct session *s, const struct measurements *r)
{
    put_text(out, "driver_version", s->info.package);
    put_truth(out, "confined", is_confined(s->info.confinement));
    put_text(out, "confinement", confinement_name(s->info.confinement));
    put_number(out, "outside_bytes", r->outside);
    put_text(out, "overhead_from", s->info.walks ? "walk" : s->info.has_usable ? "usable" : "none");
    put_text(out, "touch", touch_names[s->job.touch]);
}

static void put_times(FILE *out, const struct measurements *r, const char *name, const struct latency *t)
{
    static const unsigned permille[] = {500, 900, 990, 999};
    static const char *const labels[] = {"p50", "p90", "p99", "p999"};
    char key[64];
    for (int i = 0; i < 4; i++) {
        uint64_t ns = latency_at(t, permille[i]);
        snprintf(key, sizeof key, "%s_time_%s", name, labels[i]);
        put_number(out, key, ns);
        snprintf(key, sizeof key, "%s_time_%s_below_step", name, labels[i]);
        put_truth(out, key, ns * 1000 + 500 < r->clock_step);
    }
    snprintf(key, sizeof key, "%s_time_mean", name);
    put_per_op(out, key, t->sum, t->count);
    snprintf(key, sizeof key, "%s_time_max", name);
    put_number(out, key, t->most);
    snprintf(key, sizeof key, "%s_time_preempted", name);
    put_number(out, key, t->preempted);
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

/* The heap in the replay on threads. */
static void put_threads_space(FILE *out, const struct threads_space *s)
{
    put_number(out, "threads_halts", s->barriers);
    put_number(out, "threads_most_used", s->most_used);
    put_number(out, "threads_most_resident", s->most_resident);
    put_number(out, "threads_most_live", s->fragmentation.most_live);
    for (int i = 1; i <= FRAGMENTATION_MEASURES; i++)
        fprintf(out, "threads_fragmentation_%d = %.3f\n", i, fragmentation_measure(&s->fragmentation, i));
}

/* The replay on threads. Waiting times are shares of the time of all threads. */
static void put_threads(FILE *out, const struct measurements *r)
{
    const struct threads_result *t = &r->threaded;
    uint64_t ops = t->news + t->frees + t->resizes;
    put_text(out, "threads", t->threads ? "replay" : "merge");
    if (!t->threads)
        return;
    put_number(out, "thread_count", t->threads);
    put_text(out, "threads_locked_by", t->locked ? "replay" : "allocator");
    put_per_op(out, "threads_time_per_op", t->wall, ops);
    put_per_op(out, "threads_cpu_per_op", t->cpu, ops);
    put_per_op(out, "null_threads_time_per_op", r->null_threads_wall, r->null_threads_wall ? ops : 0);
    put_number(out, "threads_waits", t->waits);
    fprintf(out, "threads_waited_share = %.4f\n", share(t->waited, t->wall * t->threads));
    put_number(out, "threads_lock_waits", t->lock_waits);
    fprintf(out, "threads_lock_waited_share = %.4f\n", share(t->lock_waited, t->wall * t->threads));
    put_number(out, "threads_blocked", t->blocked);
    put_number(out, "threads_new_count", t->news);
    put_number(out, "threads_free_count", t->frees);
    put_number(out, "threads_resize_count", t->resizes);
    put_number(out, "threads_live_at_end", t->live_at_end);
    put_number(out, "threads_remote_frees", t->remote_frees);
    put_threads_space(out, &r->threads_space);
}

static void put_clock(FILE *out, const struct measurements *r)
{
    put_text(out, "clock", r->clock_counter ? "rdtscp" : "clock_gettime");
    put_per_op(out, "clock_cost", r->clock_cost, 1000);
    put_per_op(out, "clock_step", r->clock_step, 1000);
    put_number(out, "passes", r->timed_passes);
    put_per_op(out, "replay_time_per_op", r->batch_cpu, r->total_ops);
    put_passes(out, r);
    put_per_op(out, "warm_time_per_op", r->warm_cpu, r->warm_cpu ? r->total_ops : 0);
    put_per_op(out, "null_time_per_op", r->null_cpu, r->null_cpu ? r->total_ops : 0);
    put_per_op(out, "null_warm_time_per_op", r->null_warm_cpu, r->null_warm_cpu ? r->total_ops : 0);
    put_times(out, r, "malloc", &r->times[TIMED_MALLOC]);
    put_times(out, r, "free", &r->times[TIMED_FREE]);
    if (r->times[TIMED_REALLOC].count)
        put_times(out, r, "realloc", &r->times[TIMED_REALLOC]);
}

/* The first Steve's measure of space: the average share of the heap that the largest block would take. */
static double largest_share(const struct session *s, const struct measurements *r)
{
    double sum = 0;
    for (uint64_t i = 0; i < r->count; i++)
        sum += (double)r->points[i].maxmem;
    return r->count ? sum / (double)r->count / (double)s->job.heap * 100 : 0;
}

static void put_space(FILE *out, const struct session *s, const struct measurements *r)
{
    const struct plan_facts *f = &s->plan.facts;
    for (int i = 1; i <= FRAGMENTATION_MEASURES; i++)
        fprintf(out, "fragmentation_%d = %.3f\n", i, fragmentation_measure(&r->fragmentation, i));
    for (int i = 1; r->in_memory.most_used && i <= FRAGMENTATION_MEASURES; i++)
        fprintf(out, "fragmentation_resident_%d = %.3f\n", i, fragmentation_measure(&r->in_memory, i));
    fprintf(out, "maxmem_share = %.3f\n", largest_share(s, r));
    put_number(out, "robson_bound", fragmentation_robson(f->live_peak, f->largest));
}

void result_header(FILE *out, const struct session *s, const struct measurements *r)
{
    put_text(out, "driver", s->info.name);
    put_text(out, "opsfile", s->options->ops);
    put_number(out, "heap_size", s->job.heap);
    put_number(out, "theoretical_heap_size", r->theoretical);
    fprintf(out, "opmode = 'allocstats'\ntime_unit = 'ns'\n");
    put_run(out, s, r);
    put_driver(out, s, r);
    put_space(out, s, r);
    put_clock(out, r);
    put_threads(out, r);
    put_truth(out, "complete", r->complete);
    put_text(out, "error", r->error);
    fprintf(out, "alloc_stats = [\n");
}

void result_point(FILE *out, const struct point *p, bool first)
{
    fprintf(out,
            "%s    {'op_index': %6" PRIu64 ", 'free': %6" PRIu64 ", 'used': %6" PRIu64
            ", 'overhead': %6" PRIu64 ", 'maxmem': %6" PRIu64 ", 'current_op_time': %6" PRIu64
            ", 'oom_time': %6" PRIu64 ", 'optime_maxmem': %6" PRIu64 ", 'op': '%c', 'size': %6" PRIu64,
            first ? "" : ",", p->op_index, p->free, p->used, p->overhead, p->maxmem, p->op_time, p->oom_time,
            p->maxmem_time, p->op, p->size);
    fprintf(out,
            ", 'committed': %" PRIu64 ", 'resident': %" PRIu64 ", 'highest': %" PRIu64 ", 'locked': %" PRIu64
            ", 'blocks': %" PRIu64 ", 'interval_ops': %" PRIu64 ", 'interval_time': %" PRIu64
            ", 'interval_max_time': %" PRIu64,
            p->committed, p->resident, p->highest, p->locked, p->blocks, p->interval_ops, p->interval_time,
            p->interval_most);
    if (p->batch_ops)
        fprintf(out, ", 'batch_ops': %" PRIu64 ", 'batch_time': %" PRIu64, p->batch_ops, p->batch_time);
    if (p->chunks != UINT64_MAX)
        fprintf(out, ", 'free_chunks': %" PRIu64, p->chunks);
    fprintf(out, "}\n");
}
