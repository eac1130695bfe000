/* test_ending.c - what the collector makes of all that is known of an end.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ljtrace/collector/ending.h"
#include "ljtrace/protocol/ring.h"

enum { STATUS_3 = 3 << 8, BY_SIGTERM = 15, BY_SIGKILL = 9, DUMPED_BY_SIGABRT = 0x80 | 6 };

/* No end is known: what the feed says at first. */
#define NATIVE_SAYS(ending) .native = true, .begun = true, .said = ending
#define NATIVE NATIVE_SAYS(MT_ENDING_KILLED)

static const struct example {
    const char *what;
    struct ending_known known;
    enum mt_ending ending;
    const char *fact;
    uint32_t value;
} s_examples[] = {
    {"the library is killed with its launcher", {NATIVE}, MT_ENDING_KILLED, NULL, 0},
    {"the launcher knows the status",
     {NATIVE, .ended = RING_EXITED, .status = STATUS_3},
     MT_ENDING_EXIT,
     "exit_status",
     3},
    {"a signal", {NATIVE, .ended = RING_EXITED, .status = BY_SIGTERM}, MT_ENDING_EXIT, "signal", 15},
    {"with a core file",
     {NATIVE, .ended = RING_EXITED, .status = DUMPED_BY_SIGABRT},
     MT_ENDING_EXIT,
     "signal",
     6},
    {"SIGKILL", {NATIVE, .ended = RING_EXITED, .status = BY_SIGKILL}, MT_ENDING_KILLED, "signal", 9},
    {"a child has announced its exit",
     {NATIVE, .forked = true, .exiting = 256 + 4},
     MT_ENDING_EXIT,
     "exit_status",
     4},
    {"a status of 0", {NATIVE, .exiting = 256}, MT_ENDING_EXIT, "exit_status", 0},
    {"the launcher knows better",
     {NATIVE, .exiting = 256 + 4, .ended = RING_EXITED, .status = BY_SIGTERM},
     MT_ENDING_EXIT,
     "signal",
     15},
    {"the library has detached",
     {NATIVE_SAYS(MT_ENDING_DETACHED), .has_end = true},
     MT_ENDING_DETACHED,
     NULL,
     0},
    {"and then the program ended",
     {NATIVE_SAYS(MT_ENDING_DETACHED), .has_end = true, .ended = RING_EXITED},
     MT_ENDING_DETACHED,
     NULL,
     0},
    {"detached from outside", {NATIVE, .ended = RING_LEFT, .exiting = 256}, MT_ENDING_DETACHED, NULL, 0},
    {"an exec", {NATIVE_SAYS(MT_ENDING_EXEC), .ended = RING_EXITED}, MT_ENDING_EXEC, NULL, 0},
    {"an exec that attach has seen",
     {NATIVE_SAYS(MT_ENDING_EXEC), .ended = RING_OVER},
     MT_ENDING_EXEC,
     NULL,
     0},
    {"the library has vanished", {NATIVE, .ended = RING_OVER}, MT_ENDING_UNKNOWN, NULL, 0},
    {"a damaged header", {NATIVE, .ended = 77, .status = STATUS_3}, MT_ENDING_KILLED, NULL, 0},
    {"the limit",
     {NATIVE, .dropped = 1, .ended = RING_EXITED, .status = STATUS_3},
     MT_ENDING_LIMIT,
     "exit_status",
     3},
    {"Valgrind: an exit",
     {.has_end = true, .said = MT_ENDING_EXIT, .ended = RING_EXITED, .status = STATUS_3},
     MT_ENDING_EXIT,
     "exit_status",
     3},
    {"Valgrind: a signal",
     {.has_end = true, .said = MT_ENDING_EXIT, .ended = RING_EXITED, .status = BY_SIGTERM},
     MT_ENDING_EXIT,
     "signal",
     15},
    {"Valgrind: killed", {.said = MT_ENDING_KILLED}, MT_ENDING_KILLED, NULL, 0},
    {"Valgrind: an exec", {.said = MT_ENDING_EXEC}, MT_ENDING_EXEC, NULL, 0},
    {"Valgrind: stopped by the user",
     {.has_end = true, .said = MT_ENDING_STOPPED},
     MT_ENDING_STOPPED,
     NULL,
     0},
};

static void each_has_its_ending(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof s_examples / sizeof *s_examples; i++) {
        const struct example *x = &s_examples[i];
        const struct ending e = ending_of(&x->known);
        if (e.ending != x->ending || e.value != x->value)
            fail_msg("%s: ending %d, value %u", x->what, (int)e.ending, e.value);
        if (x->fact)
            assert_string_equal(e.fact, x->fact);
        else
            assert_null(e.fact);
    }
}

static void the_file_is_kept_if_it_holds_a_recording(void **state)
{
    struct ending_known known = {NATIVE, .ended = RING_EXITED};
    (void)state;
    assert_int_equal(ending_of(&known).file, ENDING_PUBLISH);
    known.begun = false;
    assert_int_equal(ending_of(&known).file, ENDING_REMOVE);
    known.native = false; /* the tool begins always */
    assert_int_equal(ending_of(&known).file, ENDING_PUBLISH);
    known = (struct ending_known){NATIVE_SAYS(MT_ENDING_EXEC), .forked = true, .draft = true};
    assert_int_equal(ending_of(&known).file, ENDING_DISCARD);
    known.said = MT_ENDING_KILLED;
    assert_int_equal(ending_of(&known).file, ENDING_PUBLISH);
}

static void an_exec_is_explained_once(void **state)
{
    struct ending_known known = {NATIVE};
    (void)state;
    assert_null(ending_of(&known).note);
    known.said = MT_ENDING_EXEC;
    assert_non_null(ending_of(&known).note);
    known.forked = true;
    assert_null(ending_of(&known).note);
    known.forked = known.native = false; /* Valgrind follows it */
    assert_null(ending_of(&known).note);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_has_its_ending),
                                       cmocka_unit_test(the_file_is_kept_if_it_holds_a_recording),
                                       cmocka_unit_test(an_exec_is_explained_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
