/* unwind_preload.c - a library to preload into any program: it compares stacks of allocations with libgcc's.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Every UNWIND_EVERY-th malloc of a thread (100, or what the environment says) is compared. Of every malloc the words are kept
 * on which its stack depends (native_unwind_words): a later stack from the same registers, with the same words, has to be the
 * same. At the end of the program a line with the sums is written to the file that UNWIND_REPORT names.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ljtrace/native/unwind/frame_rules.h"
#include "ljtrace/test/unwind_check.h"

void *__libc_malloc(size_t size);

enum { KEPT = 64, KEPT_WORDS = 56 };

/* A stack, by what it depends on. */
struct kept {
    struct native_registers from;
    uint64_t sum; /* of its frames */
    uint32_t words, mistakes;
    bool uses_bp;
    struct native_word word[KEPT_WORDS];
};
static __thread struct kept t_kept[KEPT];

static _Atomic unsigned long s_compared, s_wrong, s_frames, s_known;
static unsigned long s_every; /* 0: not begun, or ended */
static char s_first[2000];    /* the first difference */
static __thread unsigned long t_count;
static __thread int t_inside;

static void describe(const uint64_t *ips, uint32_t n, int difference)
{
    Dl_info info = {0};
    if (difference > 0 && (uint32_t)difference <= n)
        dladdr((void *)(uintptr_t)ips[difference - 1], &info);
    snprintf(s_first, sizeof s_first, "frame %d of %u differs, called by %s of %s", difference, n,
             info.dli_sname ? info.dli_sname : "?", info.dli_fname ? info.dli_fname : "?");
}

static __attribute__((noinline)) void compare(void)
{
    uint64_t ips[CHECK_DEPTH + 1], sps[CHECK_DEPTH + 1];
    uint32_t n;
    const int difference = unwind_difference(ips, sps, &n);
    s_frames += n;
    s_compared++;
    if (difference >= 0 && s_wrong++ == 0)
        describe(ips, n, difference);
}

static bool is_unchanged(const struct kept *k, const struct native_registers *from)
{
    bool same = k->words && k->from.ip == from->ip && k->from.sp == from->sp &&
                (!k->uses_bp || k->from.bp == from->bp) && k->mistakes == code_objects_mistakes();
    for (uint32_t i = 0; same && i < k->words; i++)
        same = *(const uint64_t *)(uintptr_t)k->word[i].at == k->word[i].value;
    return same;
}

/* Is a stack that should be known by its words the one that a walk finds? */
static __attribute__((noinline)) void compare_known(const struct native_registers *from)
{
    uint64_t ips[CHECK_DEPTH + 1], sps[CHECK_DEPTH + 1];
    struct kept *k = &t_kept[(from->ip ^ from->sp >> 4) % KEPT];
    const bool is_known = is_unchanged(k, from);
    bool lost;
    const uint32_t n = native_unwind_from(from, true, ips, sps, CHECK_DEPTH + 1, &lost);
    uint64_t sum = n + lost;
    for (uint32_t i = 0; i < n; i++)
        sum = sum * 31 + ips[i];
    s_known += is_known;
    if (is_known && k->sum != sum && s_wrong++ == 0)
        describe(ips, n, 0);
    k->from = *from;
    k->sum = sum;
    k->mistakes = code_objects_mistakes();
    k->words = native_unwind_words(from, k->word, KEPT_WORDS, &k->uses_bp);
}

void *malloc(size_t size)
{
    struct native_registers here = {0};
    __asm__ volatile("lea 0(%%rip), %0; mov %%rsp, %1; mov %%rbp, %2"
                     : "=r"(here.ip), "=r"(here.sp), "=r"(here.bp));
    if (s_every && !t_inside) {
        t_inside = 1;
        compare_known(&here);
        if (++t_count % s_every == 0)
            compare();
        t_inside = 0;
    }
    return __libc_malloc(size);
}

static __attribute__((constructor)) void begin(void)
{
    void *first[1];
    const char *every = getenv("UNWIND_EVERY");
    backtrace(first, 1); /* loads libgcc */
    s_every = every ? strtoul(every, NULL, 10) : 100;
}

static __attribute__((destructor)) void end(void)
{
    const char *path = getenv("UNWIND_REPORT");
    char line[3000];
    s_every = 0;
    const int n = snprintf(line, sizeof line, "%lu compared, %lu wrong, %lu frames, %lu known: %s\n",
                           s_compared, s_wrong, s_frames, s_known, s_wrong ? s_first : "all the same");
    const int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        _exit(97);
    close(fd);
}
