/* test_recording.c - the header of a ring is checked: by the values of what is asked, by the collector, by the library.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "ljtrace/native/inside/session.h"
#include "ljtrace/protocol/ring.h"
#include "ljtrace/protocol/ring_memory.h"

static struct recording usual(void)
{
    return (struct recording){
        .process = (uint32_t)getpid(), .native = 1, .forks = 1, .depth = 200, .level = 1};
}

static void possible_values_are_accepted(void **state)
{
    struct recording r = usual();
    (void)state;
    assert_true(recording_is_valid(&r));
    r.depth = RECORDING_MOST_FRAMES;
    r.level = RECORDING_LEVELS;
    r.beside = RECORDING_MOST_BESIDE;
    r.sample_stacks = RECORDING_LONGEST_SAMPLE;
    r.max_size = r.sample_mean = r.sample_blocks = r.sample_seed = UINT64_MAX;
    memset(r.prefixes, 'x', sizeof r.prefixes - 2);
    r.prefixes[sizeof r.prefixes - 2] = ',';
    assert_true(recording_is_valid(&r));
}

/* Each byte of the flags, and each number at its limit. */
static void others_are_refused(void **state)
{
    const size_t flags[] = {offsetof(struct recording, native), offsetof(struct recording, attached),
                            offsetof(struct recording, forks),  offsetof(struct recording, lua_api),
                            offsetof(struct recording, drops),  offsetof(struct recording, text),
                            offsetof(struct recording, freed),  offsetof(struct recording, keep_last),
                            offsetof(struct recording, pages)};
    const struct {
        size_t place;
        uint32_t value;
    } numbers[] = {{offsetof(struct recording, process), 0},
                   {offsetof(struct recording, process), 1u << 31},
                   {offsetof(struct recording, depth), RECORDING_MOST_FRAMES + 1},
                   {offsetof(struct recording, level), 0},
                   {offsetof(struct recording, level), RECORDING_LEVELS + 1},
                   {offsetof(struct recording, beside), RECORDING_MOST_BESIDE + 1},
                   {offsetof(struct recording, sample_stacks), RECORDING_SHORTEST_SAMPLE - 1},
                   {offsetof(struct recording, pages_every), RECORDING_SHORTEST_LOOK}}; /* without pages */
    (void)state;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        struct recording r = usual();
        ((uint8_t *)&r)[flags[i]] = 2;
        assert_false(recording_is_valid(&r));
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct recording r = usual();
        memcpy((uint8_t *)&r + numbers[i].place, &numbers[i].value, sizeof numbers[i].value);
        assert_false(recording_is_valid(&r));
    }
    struct recording r = usual();
    r.sample_stacks = RECORDING_LONGEST_SAMPLE + 1;
    assert_false(recording_is_valid(&r));
    r = usual();
    r.universe = UNIVERSES - 1;
    assert_true(recording_is_valid(&r));
    r.sample_mean = 1; /* a sample does not know how large the heaps are */
    assert_false(recording_is_valid(&r));
    r = usual();
    strcpy(r.pools, "new:make;get:alloc:_,pool,size;");
    assert_true(recording_is_valid(&r));
    r.sample_mean = 1;
    assert_false(recording_is_valid(&r));
    r.sample_mean = 0;
    strcpy(r.pools, "new:make;get");
    assert_false(recording_is_valid(&r));
    memset(r.pools, 'x', sizeof r.pools);
    assert_false(recording_is_valid(&r));
    r = usual();
    r.existing = 1; /* of a program that is started there are none */
    assert_false(recording_is_valid(&r));
    r.attached = 1;
    assert_true(recording_is_valid(&r));
    r.sample_mean = 1;
    assert_false(recording_is_valid(&r));
    r = usual();
    r.universe = UNIVERSES;
    assert_false(recording_is_valid(&r));
    r = usual();
    r.pages = 1;
    r.pages_every = RECORDING_SHORTEST_LOOK;
    assert_true(recording_is_valid(&r));
    r.pages_every--;
    assert_false(recording_is_valid(&r));
}

static void a_list_of_prefixes_has_an_end(void **state)
{
    struct recording r = usual();
    (void)state;
    memset(r.prefixes, ',', sizeof r.prefixes); /* no zero */
    assert_false(recording_is_valid(&r));
    r = usual();
    strcpy(r.prefixes, "je_"); /* no comma */
    assert_false(recording_is_valid(&r));
    strcpy(r.prefixes, "je_,,"); /* an empty one */
    assert_false(recording_is_valid(&r));
    r = usual();
    for (int i = 0; i < RECORDING_PREFIXES; i++)
        strcat(r.prefixes, "a,");
    assert_true(recording_is_valid(&r));
    strcat(r.prefixes, "a,"); /* one too many */
    assert_false(recording_is_valid(&r));
}

/* Start the collector for this ring, and store what it sends until it ends, or at first. */
static void ask_collector(int memfd, const char *out, char *answer, size_t room)
{
    char path[4096], ring[16], fd[16];
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    snprintf(path, sizeof path, "%s/ljtrace/ljtrace-collector", getenv("LJTRACE_BUILDDIR"));
    const pid_t collector = fork();
    if (collector == 0) {
        snprintf(ring, sizeof ring, "%d", fcntl(memfd, F_DUPFD, 3));
        snprintf(fd, sizeof fd, "%d", fcntl(pair[1], F_DUPFD, 3));
        execl(path, "ljtrace-collector", ring, fd, out, NULL);
        _exit(127);
    }
    close(pair[1]);
    size_t used = 0;
    for (ssize_t n; used < room - 1 && (n = read(pair[0], answer + used, room - 1 - used)) > 0;) {
        used += (size_t)n;
        if (answer[0] == RING_READY)
            break;
    }
    answer[used] = 0;
    close(pair[0]);
    kill(collector, SIGKILL);
    waitpid(collector, NULL, 0);
}

/* Make a ring, change one of its bytes, and return whether the collector records to it. */
static bool is_recorded(size_t place, uint8_t value)
{
    static const char refusal[] =
        "cannot record to test_recording.ljt: the tool and the collector are of different versions";
    char answer[400];
    int memfd;
    struct ring_header *ring = ring_memory_new(&memfd);
    assert_non_null(ring);
    ring->recording = usual();
    ((uint8_t *)ring)[place] = value;
    ask_collector(memfd, "test_recording.ljt", answer, sizeof answer);
    munmap(ring, RING_HEADER_BYTES);
    close(memfd);
    const bool recorded = answer[0] == RING_READY;
    if (!recorded)
        assert_string_equal(answer, refusal);
    assert_int_equal(unlink("test_recording.ljt"), recorded ? 0 : -1);
    return recorded;
}

static void the_collector_refuses_what_can_not_be(void **state)
{
    (void)state;
    assert_true(is_recorded(offsetof(struct ring_header, magic), (uint8_t)RING_MAGIC)); /* as it was */
    assert_false(is_recorded(offsetof(struct ring_header, magic), 0));
    assert_false(is_recorded(offsetof(struct ring_header, version), RING_VERSION + 1));
    assert_false(is_recorded(offsetof(struct ring_header, slab_count), 1));
    assert_false(is_recorded(offsetof(struct ring_header, recording.level), 0));
    assert_false(is_recorded(offsetof(struct ring_header, recording.text), 2));
    assert_false(is_recorded(offsetof(struct ring_header, recording.prefixes), 'x'));
}

/* Make a ring, change one of its bytes, and run a program with the library. Returns whether it has begun to record. */
static bool is_begun(size_t place, uint8_t value)
{
    char library[4096], number[16];
    int memfd, status;
    struct ring_header *ring = ring_memory_new(&memfd);
    assert_non_null(ring);
    ring->recording = usual();
    ((uint8_t *)ring)[place] = value;
    snprintf(library, sizeof library, "%s/ljtrace/libljtrace-native.so", getenv("LJTRACE_BUILDDIR"));
    const pid_t program = fork();
    if (program == 0) {
        snprintf(number, sizeof number, "%d", fcntl(memfd, F_DUPFD, 3));
        setenv(NATIVE_VARIABLE, number, 1);
        setenv("LD_PRELOAD", library, 1);
        execl("/bin/true", "true", NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(program, &status, 0), program);
    assert_int_equal(status, 0); /* it runs, recorded or not */
    const bool begun = ring->begun;
    munmap(ring, RING_HEADER_BYTES);
    close(memfd);
    return begun;
}

static void the_library_does_not_record_what_can_not_be(void **state)
{
    (void)state;
    assert_true(is_begun(offsetof(struct ring_header, magic), (uint8_t)RING_MAGIC)); /* as it was */
    assert_false(is_begun(offsetof(struct ring_header, magic), 0));
    assert_false(is_begun(offsetof(struct ring_header, slab_bytes), 1));
    assert_false(is_begun(offsetof(struct ring_header, recording.depth) + 3, 0xff));
    assert_false(is_begun(offsetof(struct ring_header, recording.forks), 2));
    assert_false(is_begun(offsetof(struct ring_header, recording.prefixes), 'x'));
}

static int enter_folder(void **state)
{
    static char folder[] = "/tmp/ljtrace-recording-XXXXXX";
    *state = folder;
    return mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int leave_folder(void **state)
{
    return chdir("/") != 0 || rmdir(*state) != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(possible_values_are_accepted),
                                       cmocka_unit_test(others_are_refused),
                                       cmocka_unit_test(a_list_of_prefixes_has_an_end),
                                       cmocka_unit_test(the_collector_refuses_what_can_not_be),
                                       cmocka_unit_test(the_library_does_not_record_what_can_not_be)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
