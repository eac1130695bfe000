/* errors.c - the errors a program can make with its heap, each a known number of times from a known place.
 *
 *     errors          all of them; the table in the case says what each function does
 *
 * The optimiser is kept from seeing what goes on. It is meant for memcheck as well, which must find the same
 * ones. Freed memory is not reused in between under a recorder or memcheck: nothing is allocated, but for a
 * block that a recorder puts at the beginning of a larger one's memory (memcheck holds that back).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static char *volatile s_p;
static volatile long s_sum;

static char *hidden(char *p)
{
    s_p = p;
    return s_p;
}

APART void load_freed(const char *p)
{
    s_sum += *(const volatile char *)(p + 5);
}

APART void store_freed(char *p)
{
    *(volatile int *)(p + 8) = 1;
}

APART void load_rest(const char *p)
{
    s_sum += *(const volatile char *)(p + 3000);
}

APART void write_freed(const char *p)
{
    int fd = open("/dev/null", O_WRONLY);
    if (write(fd, p, 4) > 0) /* the kernel reads it */
        s_sum++;
    close(fd);
}

APART void load_across(const char *p)
{
    s_sum += *(const volatile long *)(p + 20);
}

APART void store_across(char *p)
{
    *(volatile int *)(p + 22) = 1;
}

APART void store_after(char *p)
{
    *(volatile int *)(p + 24) = 1;
}

APART void load_before(const char *p)
{
    s_sum += *(const volatile int *)(p - 4);
}

APART void read_across(char *p)
{
    int fd = open("/dev/zero", O_RDONLY);
    if (read(fd, p + 20, 8) > 0) /* the kernel writes it */
        s_sum++;
    close(fd);
}

APART void free_twice(char *p)
{
    free(p);
}

APART void free_inside(char *p)
{
    free(p + 8);
}

APART void free_static(void)
{
    static char block[100];
    free(hidden(block + 16));
}

APART void free_of_new(void)
{
    extern void *_Znwm(unsigned long);
    free(_Znwm(77));
}

int main(void)
{
    char *gone = hidden(malloc(24)), *here = hidden(malloc(24));
    free(gone);
    for (int i = 0; i < 3; i++)
        load_freed(gone);
    store_freed(gone);
    write_freed(gone);
    for (int i = 0; i < 2; i++)
        load_across(here);
    store_across(here);
    for (int i = 0; i < 4; i++)
        store_after(here);
    load_before(here);
    read_across(here);
    free_twice(gone);
    free_inside(here);
    free_static();
    free_of_new();
    free(here);
    char *large = hidden(malloc(4000));
    free(large);
    char *small = hidden(malloc(1000));
    load_rest(large);
    free(small);
    return 0;
}
