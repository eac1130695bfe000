/* test_unwind.c - tests of the native unwinder: it finds what libgcc's finds, and never faults.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>
#include "ljtrace/test/unwind_check.h"
#include "ljtrace/test/unwind_cases.h"

/* How many stacks were compared, and how many of them differed. */
static _Atomic int s_compared, s_wrong;
static _Atomic uint32_t s_depth; /* of the last stack */

__attribute__((noinline)) void unwind_compare(void)
{
    uint64_t ips[CHECK_DEPTH + 1], sps[CHECK_DEPTH + 1];
    uint32_t n;
    const int difference = unwind_difference(ips, sps, &n);
    s_compared++;
    s_depth = n;
    if (difference >= 0) {
        s_wrong++;
        fprintf(stderr, "frame %d of %u differs\n", difference, n);
    }
}

/* Run f, which compares at least once. */
static void expect_same(void (*f)(void))
{
    const int before = s_compared;
    s_wrong = 0;
    f();
    assert_true(s_compared > before);
    assert_int_equal(s_wrong, 0);
}

/* Call f with so many frames around it. `inner` is volatile because compilers make a loop of such a function otherwise. */
static __attribute__((noinline)) int recurse(int depth, void (*f)(void))
{
    volatile int inner = 0;
    if (depth > 0)
        inner = recurse(depth - 1, f) + 1;
    else
        f();
    return inner;
}

static void at_several_depths(void)
{
    for (int depth = 0; depth < 250; depth += 7)
        recurse(depth, unwind_compare);
    for (int depth = 250; depth > 0; depth -= 11)
        recurse(depth, unwind_compare);
    recurse(50000, unwind_compare);
}

static void recursion(void **state)
{
    (void)state;
    expect_same(at_several_depths);
}

/* -- stacks that are deeper than those that are kept -- */

enum { DEEP = 3000, MOST_FRAMES = 4000 };
static uint64_t s_deep_ips[MOST_FRAMES], s_deep_sps[MOST_FRAMES];
static void *s_deep_expected[MOST_FRAMES];

static void compare_whole(void)
{
    const int depth = backtrace(s_deep_expected, MOST_FRAMES);
    const uint32_t n = native_unwind(NULL, s_deep_ips, s_deep_sps, MOST_FRAMES);
    s_compared++;
    s_wrong += depth < 900 || (uint32_t)depth != n;
    for (int i = 1; i < depth && (uint32_t)i < n; i++) {
        const uint64_t after = (uint64_t)(uintptr_t)s_deep_expected[i] - s_deep_ips[i];
        s_wrong += after != 1 && (after != 0 || i + 1 != depth); /* nothing has called the outermost one */
    }
}

static void beyond_what_is_kept(void)
{
    for (int depth = 1000; depth < 1050; depth++) /* 1,024 are kept */
        recurse(depth, compare_whole);
    for (int i = 0; i < 4; i++) {
        recurse(DEEP, compare_whole);
        recurse(DEEP / 3, compare_whole);
        recurse(3, unwind_compare);
    }
}

static void very_deep_stacks(void **state)
{
    (void)state;
    expect_same(beyond_what_is_kept);
}

/* A tree of calls in which each stack shares a different part with the one before. */
static uint64_t s_seed = 1;

static uint32_t dice(uint32_t below)
{
    s_seed = s_seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(s_seed >> 33) % below;
}

static void branch(int depth);

static __attribute__((noinline)) int small_frame(int depth)
{
    branch(depth - 1);
    return depth;
}

static __attribute__((noinline)) int aligned_frame(int depth)
{
    volatile char line[64] __attribute__((aligned(64)));
    line[0] = 1;
    branch(depth - 1);
    return line[0];
}

static __attribute__((noinline)) int variable_frame(int depth)
{
    volatile char *block = alloca(dice(100) + 1);
    block[0] = 1;
    branch(depth - 1);
    return block[0];
}

static __attribute__((noinline)) void branch(int depth)
{
    int (*const kinds[])(int) = {small_frame, aligned_frame, variable_frame};
    for (uint32_t i = depth > 0 ? dice(3) : 0; i > 0; i--)
        s_depth += (uint32_t)kinds[dice(3)](depth);
    unwind_compare();
}

static void trees(void)
{
    for (int i = 0; i < 3000; i++)
        branch(40);
}

static void stacks_that_share_frames(void **state)
{
    (void)state;
    expect_same(trees);
}

static __attribute__((noinline)) void with_alloca(size_t size)
{
    volatile char *block = alloca(size);
    block[0] = 1;
    unwind_compare();
    block[size - 1] = 1;
}

static __attribute__((noinline)) void with_alignment(size_t size)
{
    volatile char line[128] __attribute__((aligned(128)));
    volatile char *block = alloca(size);
    line[0] = block[0] = 1;
    unwind_compare();
    with_alloca(size);
    block[0] = line[0];
}

static void odd_frames(void)
{
    for (size_t size = 1; size < 3000; size += 333) {
        with_alloca(size);
        with_alignment(size);
    }
}

static void frames_of_variable_size(void **state)
{
    (void)state;
    expect_same(odd_frames);
}

/* Functions whose CFA is computed from rbx, a register that other functions save. The one that is called in between
 * saves rbx and changes it. */
__asm__(".text\n"
        ".type from_rbx, @function\n"
        "from_rbx: .cfi_startproc\n"
        "  push %rbx\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  .cfi_rel_offset %rbx, 0\n"
        "  mov %rsp, %rbx\n"
        "  .cfi_def_cfa_register %rbx\n"
        "  and $-256, %rsp\n"
        "  sub $512, %rsp\n"
        "  call *%rdi\n"
        "  mov %rbx, %rsp\n"
        "  .cfi_def_cfa_register %rsp\n"
        "  pop %rbx\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  .cfi_restore %rbx\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size from_rbx, .-from_rbx\n"
        ".type changes_rbx, @function\n"
        "changes_rbx: .cfi_startproc\n"
        "  push %rbx\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  .cfi_rel_offset %rbx, 0\n"
        "  xor %ebx, %ebx\n"
        "  call unwind_compare\n"
        "  pop %rbx\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  .cfi_restore %rbx\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size changes_rbx, .-changes_rbx\n");
void from_rbx(void (*f)(void));
void changes_rbx(void);

static __attribute__((noinline)) void by_assembly(void)
{
    from_rbx(unwind_compare);
    from_rbx(changes_rbx);
    __asm__ volatile("");
}

static void hand_written_code(void **state)
{
    (void)state;
    expect_same(by_assembly);
}

static int compare_elements(const void *a, const void *b)
{
    unwind_compare();
    return *(const int *)a - *(const int *)b;
}

static void from_libraries(void)
{
    int numbers[] = {3, 1, 4, 1, 5, 9, 2, 6};
    qsort(numbers, 8, sizeof numbers[0], compare_elements);
    (void)bsearch(&numbers[3], numbers, 8, sizeof numbers[0], compare_elements);
}

static void callbacks(void **state)
{
    (void)state;
    expect_same(from_libraries);
}

static void exceptions(void **state)
{
    (void)state;
    expect_same(unwind_exceptions);
}

/* -- signals ------------------------------------------------------------------------------------ */

static void on_signal(int signal)
{
    (void)signal;
    recurse(3, unwind_compare);
}

static void raise_signal(void)
{
    raise(SIGUSR1);
}

static void signal_at_depth(void)
{
    recurse(7, raise_signal);
    unwind_compare();
    recurse(7, raise_signal);
}

static void signals(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    expect_same(signal_at_depth);
    const size_t size = 1 << 18;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t other = {.ss_sp = memory, .ss_size = size}, none = {.ss_flags = SS_DISABLE};
    sigaltstack(&other, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, NULL);
    expect_same(signal_at_depth);
    sigaltstack(&none, NULL);
    munmap(memory, size);
    signal(SIGUSR1, SIG_DFL);
}

/* A signal between any two instructions: compare the handler's own stack and that of the interrupted code. */
static void on_timer(int signal, siginfo_t *info, void *context)
{
    uint64_t ips[CHECK_DEPTH + 1], sps[CHECK_DEPTH + 1], inner_ips[CHECK_DEPTH + 1],
        inner_sps[CHECK_DEPTH + 1];
    const greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const struct native_registers from = {(uint64_t)r[REG_RIP], (uint64_t)r[REG_RSP], (uint64_t)r[REG_RBP]};
    uint32_t n, i = 0, m;
    (void)signal, (void)info;
    s_compared++;
    if (unwind_difference(ips, sps, &n) >= 0)
        s_wrong++;
    while (i < n && ips[i] != from.ip)
        i++;
    m = native_unwind(&from, inner_ips, inner_sps, CHECK_DEPTH + 1 - i);
    if (i == n || m != n - i || memcmp(ips + i, inner_ips, m * sizeof *ips) ||
        memcmp(sps + i, inner_sps, m * sizeof *sps))
        s_wrong++;
}

static uint64_t s_work;

static void work(void)
{
    char text[64];
    struct timespec time;
    snprintf(text, sizeof text, "%d %g", (int)s_work, (double)s_work);
    free(malloc(100 + s_work++ % 1000));
    for (int i = 0; i < 20; i++)
        clock_gettime(CLOCK_MONOTONIC, &time); /* code of the kernel's, the vdso */
    with_alignment(100);
}

static void interrupted(void)
{
    const int before = s_compared;
    while (s_compared < before + 20000)
        recurse((int)(s_work % 20), work);
}

static void signals_at_any_instruction(void **state)
{
    (void)state;
    struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    s_wrong = 0;
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    const int before = s_compared;
    while (s_compared < before + 20000)
        interrupted();
    setitimer(ITIMER_PROF, &never, NULL);
    signal(SIGPROF, SIG_IGN);
    assert_int_equal(s_wrong, 0);
}

static sigjmp_buf s_back;

static void jump_back(int signal)
{
    (void)signal;
    siglongjmp(s_back, 1);
}

static __attribute__((noinline)) void walk_for_ever(void)
{
    uint64_t ips[CHECK_DEPTH], sps[CHECK_DEPTH];
    for (;;)
        s_depth = native_unwind(NULL, ips, sps, CHECK_DEPTH);
}

static void leave_walks(void)
{
    struct itimerval soon = {{0, 0}, {0, 200}};
    signal(SIGPROF, jump_back);
    for (volatile int i = 0; i < 200; i++) {
        if (sigsetjmp(s_back, 1) == 0) {
            setitimer(ITIMER_PROF, &soon, NULL);
            recurse(i % 30 + 10, walk_for_ever);
        }
        recurse(i % 30, unwind_compare);
    }
    signal(SIGPROF, SIG_IGN);
}

static void walks_left_by_longjmp(void **state)
{
    (void)state;
    expect_same(leave_walks);
}

/* -- threads, coroutines, libraries ---------------------------------------------------------------- */

static void *thread(void *argument)
{
    (void)argument;
    for (int i = 0; i < 200; i++)
        recurse(i % 40, i % 2 ? unwind_compare : odd_frames);
    return NULL;
}

static void in_threads(void)
{
    pthread_t threads[8];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++)
            pthread_create(&threads[i], NULL, thread, NULL);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
    }
}

static void threads(void **state)
{
    (void)state;
    expect_same(in_threads);
}

static ucontext_t s_outside, s_inside;

static void coroutine(void)
{
    for (int i = 0;; i++) {
        recurse(i % 5, unwind_compare);
        swapcontext(&s_inside, &s_outside);
    }
}

static void on_other_stacks(void)
{
    const size_t size = 1 << 17;
    for (int round = 0; round < 8; round++) {
        char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        getcontext(&s_inside);
        s_inside.uc_stack = (stack_t){.ss_sp = stack, .ss_size = size - (size_t)round * 8192};
        s_inside.uc_link = &s_outside;
        makecontext(&s_inside, coroutine, 0);
        for (int i = 0; i < 10; i++) {
            swapcontext(&s_outside, &s_inside);
            unwind_compare();
        }
        munmap(stack, size);
    }
}

static void coroutines(void **state)
{
    (void)state;
    expect_same(on_other_stacks);
}

/* The two libraries are the same but for the size of a frame, so that the second is mapped where the first was, with the
 * same .eh_frame_hdr. */
static void with_replaced_libraries(void)
{
    static const char *const names[] = {"unwind_small.so", "unwind_large.so"};
    char path[4096];
    const char *build = getenv("LJTRACE_BUILDDIR");
    for (int round = 0; round < 20; round++) {
        snprintf(path, sizeof path, "%s/ljtrace/test/%s", build ? build : ".", names[round % 2]);
        void *library = dlopen(path, RTLD_NOW);
        if (!library) {
            s_wrong++;
            fprintf(stderr, "%s\n", dlerror());
            return;
        }
        void (*call)(void (*)(void)) = (void (*)(void (*)(void)))dlsym(library, "unwind_call");
        call(unwind_compare);
        call(unwind_compare);
        dlclose(library);
    }
}

static void replaced_libraries(void **state)
{
    (void)state;
    expect_same(with_replaced_libraries);
}

/* -- where unwinding ends -------------------------------------------------------------------------- */

static uint64_t s_ips[100], s_sps[100], s_bp;

static __attribute__((noinline)) void take(void)
{
    memcpy(&s_bp, __builtin_frame_address(0), 8);
    s_depth = native_unwind(NULL, s_ips, s_sps, 100);
    __asm__ volatile("");
}

static __attribute__((noinline)) void call_made(void (*made)(void (*)(void)))
{
    made(take);
    __asm__ volatile("");
}

/* Code without rules is the last frame. With the registers of the frame outside of it, unwinding goes on. */
static void code_made_at_run_time(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x48, 0x83, 0xec, 0x28, /* sub $40, %rsp */
                                   0xff, 0xd7,             /* call *%rdi */
                                   0x48, 0x83, 0xc4, 0x28, /* add $40, %rsp */
                                   0xc3};                  /* ret */
    uint8_t *memory =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, code, sizeof code);
    call_made((void (*)(void (*)(void)))(uintptr_t)memory);
    assert_int_equal(s_depth, 2);
    assert_true(s_ips[1] == (uint64_t)(uintptr_t)memory + 5);
    struct native_registers from = {.sp = s_sps[1] + 48, .bp = s_bp};
    memcpy(&from.ip, (void *)(uintptr_t)(from.sp - 8), 8);
    from.ip--;
    uint64_t ips[100], sps[100];
    const uint32_t n = native_unwind(&from, ips, sps, 100);
    Dl_info info;
    assert_true(n > 3 && ips[0] - (uint64_t)(uintptr_t)call_made < 100);
    assert_true(dladdr((void *)(uintptr_t)ips[n - 1], &info));
    munmap(memory, 4096);
}

static void depth_is_limited(void **state)
{
    (void)state;
    uint64_t ips[100] = {0}, sps[100] = {0}, few_ips[100] = {0}, few_sps[100] = {0};
    assert_int_equal(native_unwind(NULL, ips, sps, 0), 0);
    const uint32_t n = native_unwind(NULL, ips, sps, 100);
    for (uint32_t most = 1; most < n; most++) {
        assert_int_equal(native_unwind(NULL, few_ips, few_sps, most), most);
        assert_memory_equal(few_ips + 1, ips + 1, (most - 1) * sizeof *ips);
        assert_memory_equal(few_sps, sps, most * sizeof *sps);
        assert_int_equal(few_ips[most], 0);
    }
}

/* Registers without sense: the stack is short, and nothing faults. */
static void wild_registers(void **state)
{
    (void)state;
    uint64_t ips[50], sps[50], seed = 1;
    for (int i = 0; i < 200000; i++) {
        struct native_registers from;
        uint64_t *const fields[] = {&from.ip, &from.sp, &from.bp};
        const uint64_t bases[] = {0,
                                  (uint64_t)(uintptr_t)&wild_registers,
                                  (uint64_t)(uintptr_t)&ips,
                                  (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "qsort"),
                                  ~0ULL,
                                  (uint64_t)(uintptr_t)&s_ips,
                                  (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "swapcontext")};
        for (int k = 0; k < 3; k++) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            *fields[k] = bases[(seed >> 33) % 7] + ((seed >> 40) % 8192) - 4096;
        }
        assert_true(native_unwind(&from, ips, sps, 50) <= 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recursion),
        cmocka_unit_test(very_deep_stacks),
        cmocka_unit_test(walks_left_by_longjmp),
        cmocka_unit_test(stacks_that_share_frames),
        cmocka_unit_test(frames_of_variable_size),
        cmocka_unit_test(hand_written_code),
        cmocka_unit_test(callbacks),
        cmocka_unit_test(exceptions),
        cmocka_unit_test(signals),
        cmocka_unit_test(signals_at_any_instruction),
        cmocka_unit_test(threads),
        cmocka_unit_test(coroutines),
        cmocka_unit_test(replaced_libraries),
        cmocka_unit_test(code_made_at_run_time),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(wild_registers),
    };
    void *first[1];
    backtrace(first, 1); /* loads libgcc, which is not possible in a signal handler */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
