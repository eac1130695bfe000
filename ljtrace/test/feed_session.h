/* feed_session.h - a feed with hand-made slabs, and the events of the trace that it makes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The fixture of test_feed.c: records are put as the tool puts them, and read back by the real reader.
 */
#ifndef FEED_SESSION_H
#define FEED_SESSION_H

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include "ljtrace/collector/feed.h"
#include "ljtrace/ring.h"

enum { MAX_WORDS = 4096, MAX_EVENTS = 256 };

struct session {
    int fd;
    struct mt_writer *writer;
    struct feed *feed;
    uint64_t word[MAX_WORDS];
    size_t words;
    uint64_t slot[RING_HEAP_SLOTS]; /* which heap each stands for */
    struct mt_reader *reader;
    struct mt_event event[MAX_EVENTS];
    size_t events;
};

static int setup(void **state)
{
    struct mt_error err;
    struct session *s = test_calloc(1, sizeof *s);
    s->fd = memfd_create("trace", 0);
    s->writer = mt_writer_new(s->fd, NULL, &err);
    assert_non_null(s->writer);
    s->feed = feed_new(s->writer);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct session *s = *state;
    mt_close(s->reader);
    close(s->fd);
    test_free(s);
    return 0;
}

static void put(struct session *s, enum raw_type type, uint32_t argument, const uint64_t *words,
                uint32_t count)
{
    s->word[s->words++] = raw_header(type, argument, count);
    memcpy(s->word + s->words, words, count * sizeof *words);
    s->words += count;
}

#define PUT(s, type, argument, ...)                                                                          \
    put(s, type, argument, (const uint64_t[]){__VA_ARGS__},                                                  \
        sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* A heap event, as the tool puts it: if the slot of its heap has stood for another, that is told ahead of it.
 */
static void put_event(struct session *s, enum raw_type type, uint32_t stack, uint64_t heap, enum mt_how how,
                      const uint64_t *words, uint32_t count)
{
    uint32_t slot = heap % 7;
    if (s->slot[slot] != heap)
        put(s, RAW_SLOT, slot, &heap, 1);
    s->slot[slot] = heap;
    s->word[s->words] = raw_heap_header(type, stack, slot, how, count);
    memcpy(s->word + s->words + 1, words, count * sizeof *words);
    s->words += 1 + count;
}

#define PUT_EVENT(s, type, stack, heap, how, ...)                                                            \
    put_event(s, type, stack, heap, how, (const uint64_t[]){__VA_ARGS__},                                    \
              sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

#define PUT_STATE(s, address, state, time)                                                                   \
    (s->word[s->words++] = raw_state_header(time), s->word[s->words++] = raw_state(address, state))

/* A run of segment 0, which has two accesses. */
static void put_run(struct session *s, uint64_t a, uint64_t b)
{
    s->word[s->words++] = raw_header(RAW_SEGMENT, 0, 0);
    s->word[s->words++] = a;
    s->word[s->words++] = b;
}

static void define_load_store(struct session *s)
{
    PUT(s, RAW_DEFINE, 0, raw_pair(5, 2), 0x1000, raw_pair(8, RAW_LOAD), raw_pair(0, 0), 0x1004,
        raw_pair(4, RAW_STORE), raw_pair(0, 1));
}

/* End the trace and read it all back. */
static void read_back(struct session *s)
{
    struct mt_error err = {0};
    char path[64];
    const struct mt_event *batch;
    size_t n;
    assert_null(feed_slab(s->feed, s->word, s->words));
    bool has_end = s->words >= 2 && raw_type_of(s->word[s->words - 2]) == RAW_END;
    assert_int_equal(feed_ended(s->feed), has_end);
    assert_int_equal(mt_writer_finish(s->writer, feed_ending(s->feed), &err), MT_OK);
    feed_free(s->feed);
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->fd);
    s->reader = mt_open(path, 0, &err);
    assert_non_null(s->reader);
    while (mt_next(s->reader, &batch, &n) == MT_MORE)
        for (size_t i = 0; i < n && s->events < MAX_EVENTS; i++)
            s->event[s->events++] = batch[i];
    assert_int_equal(mt_reader_error(s->reader)->code, MT_E_NONE);
}

static void assert_event(const struct session *s, size_t i, enum mt_kind kind, uint64_t handle, uint64_t addr)
{
    assert_true(i < s->events);
    assert_int_equal(s->event[i].kind, kind);
    assert_int_equal(s->event[i].handle, handle);
    assert_int_equal(s->event[i].addr, addr);
}

#endif
