/* remarks.c - what is missing in a recording, as facts in the file and as lines for the user; see remarks.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/remarks.h"
#include "ljtrace/collector/children.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

void remarks_number(const struct collector *c, const char *key, uint64_t n)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, n);
    mt_writer_info(c->writer, key, number);
}

void remarks_send(const struct collector *c, const char *text)
{
    char bytes[1000];
    int n = snprintf(bytes, sizeof bytes, "%c%s", RING_NOTE, text);
    size_t size = n < 0 ? 0 : (size_t)n < sizeof bytes - 1 ? (size_t)n : sizeof bytes - 2;
    bytes[size++] = RING_NOTE;
    if (send(c->channel.socket, bytes, size, MSG_NOSIGNAL) < 0)
        return; /* the tool is gone */
}

/* Report which source lines are missing, to the user and as a fact in the file. */
static void say_missing_lines(struct collector *c)
{
    char text[900];
    if (!feed_missing_lines(c->feed, text, sizeof text))
        return;
    mt_writer_info(c->writer, "missing_lines", text);
    remarks_send(c, text);
}

/* Say what could not be seen of the pages. */
static void say_pages(const struct collector *c)
{
    const char *problem = pages_problem(c->pages);
    if (!problem)
        return;
    mt_writer_info(c->writer, "pages_problem", problem);
    remarks_send(c, problem);
}

static void say_parts(const struct collector *c)
{
    char text[900];
    if (keep_summary(&c->keep, &c->sink, c->writer, text, sizeof text))
        remarks_send(c, text);
}

/* Write how much of the peak are blocks that other allocators divided into pieces after it, and how many of such blocks were
 * not freed. */
static void say_divided(const struct collector *c)
{
    uint64_t bytes, kept = mt_writer_kept_containers(c->writer, &bytes);
    if (mt_writer_peak_reserve(c->writer))
        remarks_number(c, "peak_reserve", mt_writer_peak_reserve(c->writer));
    if (kept) {
        remarks_number(c, "divided_blocks", kept);
        remarks_number(c, "divided_bytes", bytes);
    }
}

/* Write which events are missing, and how many frees and resizes were of blocks whose News are not in the trace. */
static void say_missing_events(const struct collector *c)
{
    feed_lost(c->feed, c->ring->lost);
    if (c->recording.attached) {
        remarks_number(c, "older_frees", mt_writer_older(c->writer));
        if (mt_writer_older_most(c->writer))
            remarks_number(c, "older_resized", mt_writer_older_most(c->writer));
        if (feed_lua_before(c->feed))
            remarks_number(c, "lua_bytes_before", feed_lua_before(c->feed));
    }
    if (mt_writer_orphans(c->writer))
        remarks_number(c, "orphan_frees", mt_writer_orphans(c->writer));
}

/* Write how many forked children are not recorded, and report it. */
static void say_unrecorded(const struct collector *c)
{
    const uint32_t n = children_unrecorded(c);
    char text[300];
    if (!n)
        return;
    remarks_number(c, "unrecorded_children", n);
    snprintf(text, sizeof text,
             "%" PRIu32 " forked %s not recorded: out of the recorder's reach (another network namespace, a "
             "seccomp filter, a limit), or killed before its recording began",
             n, n == 1 ? "child is" : "children are");
    remarks_send(c, text);
}

/* Write and report that programs which it started are not recorded. Only a part of those that start them is seen. */
static void say_started(const struct collector *c)
{
    const uint32_t n = c->ring->started;
    char text[200];
    if (!n)
        return;
    remarks_number(c, "started_programs", n);
    snprintf(
        text, sizeof text,
        "programs that it starts are not recorded (%" PRIu32
        " or more here): record each by itself, or all with valgrind --tool=ljtrace --trace-children=yes",
        n);
    remarks_send(c, text);
}

/* Report snapshots of which the process that took them has ended before it was complete. */
static void say_lost_snapshots(const struct collector *c)
{
    char text[100];
    const uint32_t n = c->lost_snapshots;
    if (!n)
        return;
    remarks_number(c, "lost_snapshots", n);
    snprintf(text, sizeof text, "%" PRIu32 " %s not complete, and not in the file", n,
             n == 1 ? "snapshot was" : "snapshots were");
    remarks_send(c, text);
}

/* Report why blocks from before the recording are not known. */
static void say_existing(const struct collector *c)
{
    char text[300];
    feed_existing_failed(c->feed);
    const char *problem = feed_existing_problem(c->feed);
    if (!problem)
        return;
    snprintf(text, sizeof text, "--existing-blocks: not all blocks from before the attach are known: %s",
             problem);
    remarks_send(c, text);
}

void remarks_name(const struct collector *c)
{
    char text[900], children[200] = "";
    const uint32_t n = children_recorded(c);
    if (!c->recording.native || c->forked || strcmp(c->name, "-") == 0)
        return;
    if (n == 1)
        snprintf(
            children, sizeof children,
            "; a forked child has a file of its own, with its process id in the name, unless it executed "
            "another program");
    else if (n)
        snprintf(children, sizeof children,
                 "; %" PRIu32
                 " forked children have files of their own, with their process ids in the names, "
                 "unless they executed another program",
                 n);
    snprintf(text, sizeof text, "memtrace written to %s%s", c->name, children);
    remarks_send(c, text);
}

void remarks_write(struct collector *c)
{
    say_missing_lines(c);
    say_missing_events(c);
    say_divided(c);
    if (children_recorded(c))
        remarks_number(c, "forked_children", children_recorded(c));
    say_unrecorded(c);
    say_started(c);
    say_lost_snapshots(c);
    say_existing(c);
    say_pages(c);
    say_parts(c);
}
