/* selfmade.c - code made at run time, changed in every way a program can. (a test program)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Usage: selfmade WAY. A function that returns a number is written anew ROUNDS times, with another number
 * each time, and called after each. Prints the calls that returned the wrong number; status 1 if there were
 * any.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ROUNDS = 300,
    PAGE = 4096,
    CODE = 6,
    READ_EXEC = PROT_READ | PROT_EXEC,
    READ_WRITE = PROT_READ | PROT_WRITE
};
enum { ANON = MAP_PRIVATE | MAP_ANONYMOUS };

static unsigned char *s_page; /* where the function is */
static unsigned s_wrong;

static unsigned char *map(size_t size, int prot, int flags, int file)
{
    return mmap(NULL, size, prot, flags, file, 0);
}

/* mov eax, number; ret */
static void put(unsigned char *at, uint32_t number)
{
    at[0] = 0xb8;
    memcpy(at + 1, &number, sizeof number);
    at[5] = 0xc3;
}

static uint32_t call(const unsigned char *at)
{
    uint32_t (*f)(void);
    memcpy(&f, &at, sizeof f);
    return f();
}

static void expect(const unsigned char *at, uint32_t number)
{
    uint32_t got = call(at);
    if (got != number && s_wrong++ < 3)
        printf("%u instead of %u\n", got, number);
}

/* As LuaJIT does it: never writable and executable at once. */
static void protect(uint32_t number)
{
    mprotect(s_page, PAGE, READ_WRITE);
    put(s_page, number);
    mprotect(s_page, PAGE, READ_EXEC);
    expect(s_page, number);
}

static void in_place(uint32_t number)
{
    put(s_page, number);
    expect(s_page, number);
}

/* First sealed, then open, then sealed again. */
static void opened(uint32_t number)
{
    mprotect(s_page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
    put(s_page, number);
    expect(s_page, number);
    put(s_page, number + 1);
    expect(s_page, number + 1);
    mprotect(s_page, PAGE, READ_EXEC);
    expect(s_page, number + 1);
}

static void mapped_over(uint32_t number)
{
    mmap(s_page, PAGE, READ_WRITE, ANON | MAP_FIXED, -1, 0);
    put(s_page, number);
    mprotect(s_page, PAGE, READ_EXEC);
    expect(s_page, number);
}

/* New pages move to where the code was. */
static void moved_over(uint32_t number)
{
    unsigned char *fresh = map(PAGE, READ_WRITE, ANON, -1);
    put(fresh, number);
    mprotect(fresh, PAGE, READ_EXEC);
    expect(fresh, number);
    if (mremap(fresh, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, s_page) != s_page)
        s_wrong++;
    expect(s_page, number);
}

/* The system writes to protected pages, too. */
static void through_proc(uint32_t number)
{
    static int file = -1;
    unsigned char code[CODE];
    if (number == 0)
        protect(7);
    if (file < 0)
        file = open("/proc/self/mem", O_RDWR);
    put(code, number);
    if (pwrite(file, code, sizeof code, (off_t)(uintptr_t)s_page) != sizeof code)
        s_wrong++;
    expect(s_page, number);
}

/* Another process writes what is only executable here. */
static void by_child(uint32_t number)
{
    pid_t child = fork();
    if (child == 0) {
        mprotect(s_page, PAGE, READ_WRITE);
        put(s_page, number);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    expect(s_page, number);
}

static void *write_it(void *number)
{
    mprotect(s_page, PAGE, READ_WRITE);
    put(s_page, (uint32_t)(uintptr_t)number);
    mprotect(s_page, PAGE, READ_EXEC);
    return NULL;
}

static void by_thread(uint32_t number)
{
    pthread_t writer;
    pthread_create(&writer, NULL, write_it, (void *)(uintptr_t)number);
    pthread_join(writer, NULL);
    expect(s_page, number);
}

/* madvise empties the page; nothing else happens to it before it is written again. */
static void emptied(uint32_t number)
{
    if (number > 0 && madvise(s_page, PAGE, MADV_DONTNEED) != 0)
        s_wrong++;
    if (number > 0 && s_page[0] != 0)
        s_wrong++;
    protect(number);
}

/* A function that ends in a page that is open. */
static void across(uint32_t number)
{
    unsigned char *at = s_page + PAGE - 3;
    if (number == 0) {
        mprotect(s_page, PAGE, READ_WRITE);
        put(at, 0);
        mprotect(s_page, PAGE, READ_EXEC);
    }
    memcpy(at + 3, (unsigned char *)&number + 2, 2);
    expect(at, number & 0xffff0000);
}

/* One memory, mapped twice: Valgrind's translations of files' code have no checks. */
static void twice(uint32_t number)
{
    static unsigned char *written;
    if (!written) {
        int file = memfd_create("code", 0);
        if (ftruncate(file, PAGE) != 0)
            s_wrong++;
        written = map(PAGE, READ_WRITE, MAP_SHARED, file);
        s_page = map(PAGE, READ_EXEC, MAP_SHARED, file);
    }
    put(written, number);
    expect(s_page, number);
}

static const struct way {
    const char *name;
    void (*change)(uint32_t);
    int prot, flags;
    uint32_t step;
} s_ways[] = {{"protect", protect, READ_WRITE, ANON, 1},
              {"in_place", in_place, READ_WRITE | PROT_EXEC, ANON, 1},
              {"opened", opened, READ_EXEC, ANON, 2},
              {"mapped_over", mapped_over, READ_EXEC, ANON, 1},
              {"moved_over", moved_over, READ_EXEC, ANON, 1},
              {"through_proc", through_proc, READ_EXEC, ANON, 1},
              {"by_child", by_child, READ_EXEC, MAP_SHARED | MAP_ANONYMOUS, 1},
              {"by_thread", by_thread, READ_EXEC, ANON, 1},
              {"emptied", emptied, READ_EXEC, ANON, 1},
              {"across", across, READ_WRITE | PROT_EXEC, ANON, 65536},
              {"twice", twice, READ_EXEC, ANON, 1}};
enum { WAYS = sizeof s_ways / sizeof *s_ways };

static int run(const struct way *way)
{
    uint32_t rounds = way->change == by_child ? 10 : ROUNDS;
    s_page = map(2 * PAGE, way->prot, way->flags, -1);
    if (s_page == MAP_FAILED)
        return 2;
    for (uint32_t i = 0; i < rounds; i++)
        way->change(i * way->step);
    printf("%s: %u wrong\n", way->name, s_wrong);
    return s_wrong > 0;
}

int main(int argc, char **argv)
{
    for (int i = 0; argc == 2 && i < WAYS; i++)
        if (strcmp(argv[1], s_ways[i].name) == 0)
            return run(&s_ways[i]);
    fprintf(stderr, "usage: selfmade WAY\n");
    return 2;
}
