/* test_rewrite.c - a trace that is copied with other names has the same events, in stacks of the new frames.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/rewrite.h"
#include "memtrace/test/everything.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT = 1 << 20 };

/* What is found for a frame: nothing, or a function and two that are inlined in it. */
static size_t no_names(void *context, const struct mt_reader *r, const struct mt_frame *f, struct mt_name *names)
{
    (void)context, (void)r, (void)f, (void)names;
    return 0;
}

static size_t three_names(void *context, const struct mt_reader *r, const struct mt_frame *f,
                          struct mt_name *names)
{
    (void)context, (void)r;
    names[0] = (struct mt_name){"least", "least.h", (uint32_t)f->ip};
    names[1] = (struct mt_name){"middle", "least.h", 2};
    names[2] = (struct mt_name){"whole", NULL, 0};
    return 3;
}

/* -- traces as text ------------------------------------------------------------------------------ */

struct text {
    char *at;
    size_t n;
};

static void put(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    t->n += (size_t)vsnprintf(t->at + t->n, TEXT - t->n, format, values);
    va_end(values);
    assert_true(t->n < TEXT);
}

static void put_frame_text(struct text *t, const struct mt_reader *r, uint32_t id)
{
    const struct mt_frame *f = mt_frame(r, id);
    put(t, " %s(%s:%u %u %u %u %s)", mt_string(r, f->function), mt_string(r, f->file), f->line, f->kind, f->nth,
        f->defined, mt_string(r, f->object));
}

static void put_stack_text(struct text *t, const struct mt_reader *r, uint32_t stack)
{
    for (const struct mt_stack *s; stack && (s = mt_stack(r, stack)); stack = s->parent)
        put_frame_text(t, r, s->frame);
}

static void put_event_text(struct text *t, const struct mt_reader *r, const struct mt_event *e)
{
    put(t, "%s %llu %llx %llu %llu %u:", mt_kind_name(e->kind), (unsigned long long)e->handle,
        (unsigned long long)e->addr, (unsigned long long)e->size, (unsigned long long)e->time, e->thread);
    if (mt_kind_has_stack(e->kind))
        put_stack_text(t, r, e->ref);
    else if (is_access(e) && e->ref)
        put_frame_text(t, r, mt_site(r, e->ref)->frame);
    else if (e->kind == MT_MARK || e->kind == MT_LOST)
        put(t, " %s", mt_string(r, e->ref));
    put(t, "\n");
}

static void put_snapshots(struct text *t, const struct mt_reader *r)
{
    const struct mt_snapshot *s;
    for (uint32_t i = 0; (s = mt_snapshot(r, i)); i++) {
        put(t, "snapshot %s\n", mt_string(r, s->name));
        for (uint32_t k = 0; k < s->n_objects; k++)
            put(t, "object %s\n", mt_string(r, s->objects[k].name));
        for (uint32_t k = 0; k < s->n_links; k++)
            if (s->links[k].kind == MT_LINK_UPVALUE || s->links[k].kind == MT_LINK_VALUE)
                put(t, "link %s\n", mt_string(r, s->links[k].name));
            else
                put(t, "link %u\n", s->links[k].name);
    }
}

/* All that a trace says, with names instead of ids; *result is that of the last mt_next. */
static struct text text_of(struct bytes trace, int *result)
{
    struct text t = {malloc(TEXT), 0};
    const struct mt_event *events;
    size_t n;
    int fd = memory_file(trace.data, trace.size);
    struct mt_reader *r = mt_open(memory_path(fd), MT_OPEN_FREED | MT_OPEN_SNAPSHOTS, NULL);
    assert_non_null(t.at);
    assert_non_null(r);
    while ((*result = mt_next(r, &events, &n)) == MT_MORE)
        for (size_t i = 0; i < n; i++)
            put_event_text(&t, r, &events[i]);
    put_snapshots(&t, r);
    for (uint32_t i = 0; i < mt_count_protos(r); i++)
        put(&t, "proto %s %u\n", mt_string(r, mt_proto(r, i)->function), mt_proto(r, i)->nth);
    mt_close(r);
    close(fd);
    return t;
}

static struct bytes rewritten(struct bytes trace, const struct mt_namer *namer, int *result, struct mt_error *err)
{
    int fd = memory_file(trace.data, trace.size), out = memory_file("", 0);
    struct mt_reader *r = mt_open(memory_path(fd), 0, err);
    assert_non_null(r);
    *result = mt_rewrite_names(r, out, namer, err);
    struct bytes b = memory_bytes(out);
    mt_close(r);
    close(fd);
    close(out);
    return b;
}

/* -- tests --------------------------------------------------------------------------------------- */

static void check_unchanged(struct bytes trace)
{
    const struct mt_namer namer = {no_names, NULL};
    struct mt_error err;
    int result, read;
    struct bytes copy = rewritten(trace, &namer, &result, &err);
    assert_int_equal(result, MT_OK);
    struct text before = text_of(trace, &read);
    assert_int_equal(read, MT_END);
    struct text after = text_of(copy, &read);
    assert_int_equal(read, MT_END);
    assert_true(before.n > 1000);
    assert_string_equal(before.at, after.at);
    free(before.at);
    free(after.at);
    free(copy.data);
    free(trace.data);
}

static void without_new_names_all_stays(void **state)
{
    (void)state;
    check_unchanged(trace_of_everything());
    check_unchanged(trace_of_a_fork());
}

static uint32_t string(struct mt_writer *w, const char *s)
{
    return mt_writer_string(w, s, strlen(s));
}

static uint32_t push(struct mt_writer *w, uint32_t stack, uint64_t ip, const char *function, uint8_t kind)
{
    const struct mt_frame f = {.ip = ip, .function = string(w, function), .kind = kind};
    return mt_writer_stack(w, stack, mt_writer_frame(w, &f));
}

/* A trace of two blocks: from a function with a function inlined in it, called by a line of Lua; and from that line. */
static struct bytes small_trace(void)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = mt_writer_new(fd, NULL, NULL);
    const uint32_t lua = push(w, 0, 7, "line", MT_FRAME_LUA);
    const uint32_t host = push(w, lua, 5, "old", MT_FRAME_HOST);
    const uint32_t inlined = push(w, host, 5, "old_inlined", MT_FRAME_INLINED);
    mt_writer_block_new(w, 4096, 8, 0, MT_HOW_MALLOC, inlined);
    mt_writer_block_free(w, 4096, 0, host);
    mt_writer_block_new(w, 8192, 8, 0, MT_HOW_MALLOC, lua);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes b = memory_bytes(fd);
    close(fd);
    return b;
}

static void new_names_replace_a_function_and_those_inlined_in_it(void **state)
{
    (void)state;
    const struct mt_namer namer = {three_names, NULL};
    struct bytes trace = small_trace();
    struct mt_error err;
    int result;
    struct bytes copy = rewritten(trace, &namer, &result, &err);
    assert_int_equal(result, MT_OK);
    struct text t = text_of(copy, &result);
    assert_string_equal(t.at, "new 0 1000 8 0 1: least(least.h:5 6 0 0 ) middle(least.h:2 6 0 0 ) whole(:0 0 0 0 ) "
                              "line(:0 1 0 0 )\n"
                              "free 0 1000 8 0 1: least(least.h:5 6 0 0 ) middle(least.h:2 6 0 0 ) whole(:0 0 0 0 ) "
                              "line(:0 1 0 0 )\n"
                              "new 1 2000 8 0 1: line(:0 1 0 0 )\n");
    free(t.at);
    free(copy.data);
    free(trace.data);
}

static void new_names_leave_the_events(void **state)
{
    (void)state;
    const struct mt_namer namer = {three_names, NULL};
    struct bytes trace = trace_of_everything();
    struct mt_error err;
    int result;
    struct bytes copy = rewritten(trace, &namer, &result, &err);
    assert_int_equal(result, MT_OK);
    struct reading before = read_bytes(trace.data, trace.size, MT_OPEN_FREED);
    struct reading after = read_bytes(copy.data, copy.size, MT_OPEN_FREED);
    assert_int_equal(after.result, MT_END);
    assert_int_equal(after.count, before.count);
    for (size_t i = 0; i < before.count; i++)
        assert_true(before.events[i].kind == after.events[i].kind &&
                    before.events[i].handle == after.events[i].handle &&
                    before.events[i].addr == after.events[i].addr &&
                    before.events[i].time == after.events[i].time);
    reading_free(&before);
    reading_free(&after);
    free(copy.data);
    free(trace.data);
}

/* However a trace is cut or damaged, the copy is made of what is good, and the error says where the trace ends. A copy
 * without the index has all events. */
static void damage_ends_the_copy(void **state)
{
    (void)state;
    const struct mt_namer namer = {three_names, NULL};
    struct bytes trace = trace_of_everything();
    int whole_result;
    struct mt_error whole_err;
    struct bytes whole_copy = rewritten(trace, &namer, &whole_result, &whole_err);
    struct text whole = text_of(whole_copy, &whole_result);
    for (size_t at = FILE_HEADER_SIZE; at < trace.size; at += 97) {
        struct mt_error err;
        int result, read;
        struct bytes copy = rewritten((struct bytes){trace.data, at}, &namer, &result, &err);
        assert_int_equal(result, MT_ERROR);
        assert_int_equal(err.code, MT_E_TRUNCATED);
        struct text part = text_of(copy, &read);
        assert_true(read == MT_ERROR || strcmp(part.at, whole.at) == 0);
        free(part.at);
        free(copy.data);
        trace.data[at] ^= 0x40;
        copy = rewritten(trace, &namer, &result, &err);
        assert_int_equal(result, MT_ERROR);
        trace.data[at] ^= 0x40;
        free(copy.data);
    }
    free(whole.at);
    free(whole_copy.data);
    free(trace.data);
}

static void text_is_refused(void **state)
{
    (void)state;
    const struct mt_namer namer = {no_names, NULL};
    static const char text[] = ">>> N 0x1000 8\n";
    struct bytes trace = {(uint8_t *)text, sizeof text - 1};
    struct mt_error err;
    int result;
    free(rewritten(trace, &namer, &result, &err).data);
    assert_int_equal(result, MT_ERROR);
    assert_non_null(strstr(err.text, "binary"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_new_names_all_stays),
        cmocka_unit_test(new_names_replace_a_function_and_those_inlined_in_it),
        cmocka_unit_test(new_names_leave_the_events),
        cmocka_unit_test(damage_ends_the_copy),
        cmocka_unit_test(text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
