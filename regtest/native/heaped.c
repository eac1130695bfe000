/* heaped - allocates in steps for the tests of profiles that are taken while a program runs.
 *
 *     heaped STEPS     for each line of standard input: STEPS times a block of 1,000 bytes that stays and 9 of 100
 *                      bytes that do not; then a line on standard output
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <stdlib.h>

static void *volatile s_last;

__attribute__((noinline)) static void keep(void)
{
    s_last = malloc(1000);
}

__attribute__((noinline)) static void pass(void)
{
    s_last = malloc(100);
    free(s_last);
}

__attribute__((noinline)) static void burn(void)
{
    for (volatile long i = 0; i < 100000; i++)
        ;
}

int main(int argc, char **argv)
{
    static char line[100];
    const long steps = argc > 1 ? atol(argv[1]) : 1;
    setvbuf(stdin, NULL, _IONBF, 0);
    setvbuf(stdout, NULL, _IONBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        for (long i = 0; i < steps; i++) {
            keep();
            for (int k = 0; k < 9; k++)
                pass();
            burn();
        }
        puts("done");
    }
    return 7;
}
