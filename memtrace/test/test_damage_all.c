/* test_damage_all.c - every kind of chunk and record, cut at every byte and with every byte changed.
 *
 * What is read is compared as lines of the dump: definitions, events and snapshots. Up to the damage they must be
 * those of the whole trace, followed by an error. With salvaging, all lines must be in the whole trace, in its order,
 * and the damage is reported. The same is tested for reading by parts. test_damage.c does this with a trace of
 * accesses, and also omits chunks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/everything.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- a trace as lines --------------------------------------------------------------------------- */

struct lines {
    char **line;
    size_t n, room;
    int result;
    struct mt_error err;
};

static void keep_line(void *ctx, const char *text)
{
    struct lines *l = ctx;
    if (l->n == l->room)
        l->line = realloc(l->line, (l->room = 2 * l->room + 64) * sizeof *l->line);
    assert_non_null(l->line);
    l->line[l->n++] = strdup(text);
}

static struct lines lines_of(const struct bytes *file, size_t size, unsigned flags)
{
    struct lines l = {0};
    int fd = memory_file(file->data, size);
    l.result = mt_dump(memory_path(fd), flags | MT_OPEN_SNAPSHOTS, keep_line, &l, &l.err);
    close(fd);
    return l;
}

static void lines_free(struct lines *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->line[i]);
    free(l->line);
    *l = (struct lines){0};
}

static void check_prefix(const struct lines *whole, const struct lines *got)
{
    assert_true(got->n <= whole->n);
    for (size_t i = 0; i < got->n; i++)
        assert_string_equal(got->line[i], whole->line[i]);
}

static bool starts_with(const char *line, const char *word)
{
    size_t n = strlen(word);
    return strncmp(line, word, n) == 0 && (line[n] == ' ' || line[n] == 0);
}

/* Prototypes and traces are identified by block and number. Only the dump numbers them in the order in which they
 * come. */
static const char *uncounted(const char *line)
{
    const char *behind = strstr(line, " handle="), *number = strstr(line, " number=");
    if (starts_with(line, "proto") && behind)
        return behind;
    return starts_with(line, "trace") && number ? number : line;
}

/* Lines must be in the whole trace, in its order, except those that report a loss. */
static void check_within(const struct lines *whole, const struct lines *got)
{
    size_t at = 0;
    for (size_t i = 0; i < got->n; i++) {
        size_t found = at;
        while (found < whole->n && strcmp(uncounted(got->line[i]), uncounted(whole->line[found])) != 0)
            found++;
        if (found < whole->n)
            at = found + 1;
        else if (!starts_with(got->line[i], "lost"))
            fail_msg("not in the whole trace: %s", got->line[i]);
    }
}

/* -- which traces ------------------------------------------------------------------------------- */

static struct bytes (*const s_make[])(void) = {trace_of_everything, trace_of_a_fork};
enum { TRACES = sizeof s_make / sizeof *s_make };

typedef void check_fn(struct bytes *file, const struct lines *whole);

static void for_each_trace(check_fn *check)
{
    for (unsigned i = 0; i < TRACES; i++) {
        struct bytes file = s_make[i]();
        struct lines whole = lines_of(&file, file.size, 0);
        assert_int_equal(whole.result, MT_END);
        check(&file, &whole);
        lines_free(&whole);
        free(file.data);
    }
}

/* -- they hold all there is --------------------------------------------------------------------- */

/* Records that the dump does not show under their own names, or not at all; `as` is the line that shows them. */
static const struct {
    const char *name, *as;
} s_hidden[] = {
    {"base", "string"},   {"inherit", "implied=1"}, {"held", "earlier=1"},  {"thread", "thread=2"},
    {"vm", "state"},      {"touch", "kernel=1"},    {"freed", "freed=1"},   {"stop", "end"},
    {"block", "handle="}, {"chunk", "end"},         {"beside", "beside=1"}, {"checkpoint", "handle="},
};

static const char *shown_as(const char *name)
{
    for (size_t i = 0; i < sizeof s_hidden / sizeof *s_hidden; i++)
        if (strcmp(s_hidden[i].name, name) == 0)
            return s_hidden[i].as;
    return name;
}

static bool is_shown(const struct lines *all, const char *what)
{
    for (size_t i = 0; i < all->n; i++)
        if (starts_with(all->line[i], what) || (strchr(what, '=') && strstr(all->line[i], what)))
            return true;
    return false;
}

static void test_every_record_is_there(void **state)
{
    static const char *const names[] = {
#define RECORD(NAME, name, code, fields) #name,
#include "memtrace/format/records.def"
    };
    struct bytes file = trace_of_everything(), child = trace_of_a_fork();
    struct lines all = lines_of(&file, file.size, 0), more = lines_of(&child, child.size, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!is_shown(&all, shown_as(names[i])) && !is_shown(&more, shown_as(names[i])))
            fail_msg("no record '%s' in the traces that are damaged here", names[i]);
    lines_free(&all);
    lines_free(&more);
    free(file.data);
    free(child.data);
}

static void test_every_chunk_is_there(void **state)
{
    unsigned seen = 0;
    for (unsigned i = 0; i < TRACES; i++) {
        struct bytes file = s_make[i]();
        for (size_t at = FILE_HEADER_SIZE; at + TRAILER_SIZE < file.size;
             at += CHUNK_HEADER_SIZE + load_u32(file.data + at + 16))
            seen |= 1u << file.data[at + 8];
        free(file.data);
    }
    for (unsigned type = CHUNK_DEFS; type <= CHUNK_EVENTS; type++)
        assert_true(seen & 1u << type);
}

/* -- damage ------------------------------------------------------------------------------------- */

static void cut(struct bytes *file, const struct lines *whole)
{
    unsigned ended = 0;
    for (size_t size = 1; size < file->size; size++) {
        struct lines got = lines_of(file, size, 0), saved = lines_of(file, size, MT_OPEN_SALVAGE);
        check_prefix(whole, &got);
        check_within(whole, &saved);
        ended += got.result == MT_END;
        if (got.result != MT_END)
            assert_true(got.err.code == MT_E_TRUNCATED && got.err.text[0]);
        lines_free(&got);
        lines_free(&saved);
    }
    assert_int_equal(ended, 1); /* cut after the END chunk: only the index is missing */
}

static void change_to(struct bytes *file, const struct lines *whole, size_t at, uint8_t how)
{
    file->data[at] ^= how;
    struct lines got = lines_of(file, file->size, 0), saved = lines_of(file, file->size, MT_OPEN_SALVAGE);
    assert_int_equal(got.result, MT_ERROR);
    assert_true(got.err.code != MT_E_NONE && got.err.text[0]);
    check_prefix(whole, &got);
    check_within(whole, &saved);
    lines_free(&got);
    lines_free(&saved);
    file->data[at] ^= how;
}

/* Change one bit of each byte, a different one from byte to byte. */
static void change(struct bytes *file, const struct lines *whole)
{
    for (size_t at = 0; at < file->size; at++)
        change_to(file, whole, at, (uint8_t)(1u << at % 8));
}

static void test_cut_everywhere(void **state)
{
    for_each_trace(cut);
}

static void test_change_every_byte(void **state)
{
    for_each_trace(change);
}

/* -- by parts ----------------------------------------------------------------------------------- */

/* Read the events of one part. They must be those of the whole trace from `from` on, or end with an error. Returns
 * their number. */
static size_t check_part(struct mt_reader *r, uint32_t part, const struct reading *whole, uint64_t from)
{
    const struct mt_event *events;
    size_t n, count = 0;
    int result = mt_read_range(r, part, part + 1) == MT_OK ? MT_MORE : MT_ERROR;
    while (result == MT_MORE && (result = mt_next(r, &events, &n)) == MT_MORE) {
        assert_true(from + count + n <= whole->count);
        for (size_t i = 0; i < n; i++)
            assert_true(same_event(&events[i], &whole->events[from + count + i]));
        count += n;
    }
    if (result == MT_ERROR)
        assert_true(mt_reader_error(r)->code != MT_E_NONE);
    return count;
}

/* Read the parts separately. Returns whether one of them, or the search for them, found the damage. */
static bool parts_fail(const struct bytes *file, const struct reading *whole)
{
    const struct mt_seek_point *points;
    uint32_t n = 1;
    size_t count = 0;
    bool failed = false;
    int fd = memory_file(file->data, file->size);
    for (uint32_t part = 0; part < n && !failed; part++) {
        struct mt_reader *r = mt_open(memory_path(fd), MT_OPEN_FREED, NULL);
        failed = !r || mt_seek_points(r, &points, &n) != MT_OK;
        if (!failed) {
            count += check_part(r, part, whole, points[part].event);
            failed = mt_reader_error(r)->code != MT_E_NONE;
        }
        mt_close(r);
    }
    close(fd);
    assert_true(failed || count == whole->count);
    return failed;
}

/* Every third byte only, because each trace is read once per part. */
static void change_in_parts(struct bytes *file, const struct lines *lines)
{
    struct reading whole = read_bytes(file->data, file->size, MT_OPEN_FREED);
    assert_true(lines->n > 0 && !parts_fail(file, &whole));
    for (size_t at = 0; at < file->size; at += 3) {
        file->data[at] ^= 0x10;
        parts_fail(file, &whole);
        file->data[at] ^= 0x10;
    }
    reading_free(&whole);
}

static void test_parts_of_a_damaged_trace(void **state)
{
    for_each_trace(change_in_parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_record_is_there),    cmocka_unit_test(test_every_chunk_is_there),
        cmocka_unit_test(test_cut_everywhere),           cmocka_unit_test(test_change_every_byte),
        cmocka_unit_test(test_parts_of_a_damaged_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
