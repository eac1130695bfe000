/* feed_session.h - a feed with slabs made by hand, and the events of the resulting trace.
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
#include "ljtrace/protocol/ring.h"

enum { MAX_BYTES = 32768, MAX_EVENTS = 256 };

struct session {
    int fd;
    struct mt_writer *writer;
    struct feed *feed;
    uint8_t slab[MAX_BYTES];
    size_t used;
    uint64_t slot[RING_HEAP_SLOTS]; /* the heap of each slot */
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

static void put_bytes(struct session *s, const void *bytes, size_t count)
{
    if (count)
        memcpy(s->slab + s->used, bytes, count);
    s->used += count;
}

static void put_record(struct session *s, uint64_t header, const uint64_t *words)
{
    put_bytes(s, &header, sizeof header);
    put_bytes(s, words, raw_count_of(header) * sizeof *words);
}

static void put(struct session *s, enum raw_type type, uint32_t argument, const uint64_t *words,
                uint32_t count)
{
    put_record(s, raw_header(type, argument, count), words);
}

#define PUT(s, type, argument, ...)                                                                          \
    put(s, type, argument, (const uint64_t[]){__VA_ARGS__},                                                  \
        sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* Write a heap event as the tool does: if the slot of its heap was another heap's, a RAW_SLOT precedes it. */
static inline void put_event(struct session *s, enum raw_type type, uint32_t stack, uint64_t heap,
                             enum mt_how how, const uint64_t *words, uint32_t count)
{
    uint32_t slot = heap % 7;
    if (s->slot[slot] != heap)
        put(s, RAW_SLOT, slot, &heap, 1);
    s->slot[slot] = heap;
    put_record(s, raw_heap_header(type, stack, slot, how, count), words);
}

#define PUT_EVENT(s, type, stack, heap, how, ...)                                                            \
    put_event(s, type, stack, heap, how, (const uint64_t[]){__VA_ARGS__},                                    \
              sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* Write that code has stored a state at an address, at a time. */
static inline void put_state(struct session *s, uint64_t address, int32_t state, uint64_t time)
{
    const uint32_t header = raw_state_header();
    put_bytes(s, &header, sizeof header);
    put_bytes(s, (const uint64_t[]){time, raw_state(address, state)}, 2 * sizeof(uint64_t));
}

/* Write an execution of segment 0, which has two accesses. */
static inline void put_run(struct session *s, uint64_t a, uint64_t b)
{
    uint8_t *at = mt_stream_put_id(s->slab + s->used, 0);
    at = mt_stream_put_word(mt_stream_put_word(at, a), b);
    s->used = (size_t)(at - s->slab);
}

static inline void define_load_store(struct session *s)
{
    PUT(s, RAW_DEFINE, 0, raw_pair(5, 2), 0x1000, raw_pair(8, RAW_LOAD), raw_pair(0, 0), 0x1004,
        raw_pair(4, RAW_STORE), raw_pair(0, 1));
}

/* End the trace and read all its events. */
static void read_back(struct session *s)
{
    struct mt_error err = {0};
    char path[64];
    const struct mt_event *batch;
    size_t n;
    assert_null(feed_slab(s->feed, s->slab, s->used));
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

static inline void assert_event(const struct session *s, size_t i, enum mt_kind kind, uint64_t handle,
                                uint64_t addr)
{
    assert_true(i < s->events);
    assert_int_equal(s->event[i].kind, kind);
    assert_int_equal(s->event[i].handle, handle);
    assert_int_equal(s->event[i].addr, addr);
}

#endif
