/* replaced.c - a program whose object files are gone when it allocates (regtest/cases/test_replaced_files.py).
 *
 *     replaced keep                  nothing happens to the program's file
 *     replaced remove                the program's file is removed
 *     replaced rename FILE           another file takes the place of the program's
 *     replaced wait                  after a byte of standard input a block is made, until that ends
 *     replaced serve FILE            a library is loaded, and makes these blocks
 *     replaced library FILE [GONE]   a library is loaded and makes a block; with GONE it is removed before that
 *     replaced elsewhere FILE        the same by a relative path; then the folder changes
 *     replaced unnamed FILE          the same from memory
 *     replaced twice FILE OTHER PATH OTHER takes the place of a loaded library; PATH leads there and is loaded, too
 *
 * Compiled with -DLIBRARY=NAME it is the library, whose function make calls NAME, which allocates.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef LIBRARY
__attribute__((noinline)) void *LIBRARY(void)
{
    return malloc(77);
}

void *make(void)
{
    char *block = LIBRARY();
    block[0] = 1;
    return block;
}
#else
static __attribute__((noinline)) void *allocate(void)
{
    char *block = malloc(55);
    block[0] = 1;
    return block;
}

static void *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return library;
}

static void make_in(void *library)
{
    free(((void *(*)(void))dlsym(library, "make"))());
}

/* A library from a file that has no name. */
static void *load_from_memory(const char *path)
{
    struct stat status;
    char name[40];
    const int from = open(path, O_RDONLY), to = memfd_create("unnamed", MFD_CLOEXEC);
    if (fstat(from, &status) != 0 || sendfile(to, from, NULL, (size_t)status.st_size) != status.st_size)
        exit(3);
    snprintf(name, sizeof name, "/proc/self/fd/%d", to);
    void *library = load(name);
    close(from);
    close(to);
    return library;
}

int main(int n, char **a)
{
    const char *mode = n > 1 ? a[1] : "keep";
    char byte;
    if (strcmp(mode, "remove") == 0)
        unlink(a[0]);
    else if (strcmp(mode, "rename") == 0)
        rename(a[2], a[0]);
    void *served = strcmp(mode, "serve") == 0 ? load(a[2]) : NULL;
    while ((served || strcmp(mode, "wait") == 0) && read(STDIN_FILENO, &byte, 1) == 1) {
        if (served)
            make_in(served);
        else
            free(allocate());
        if (write(STDOUT_FILENO, &byte, 1) != 1)
            return 4;
    }
    free(allocate());
    if (strcmp(mode, "library") == 0) {
        void *library = load(a[2]);
        if (n > 3)
            unlink(a[2]);
        make_in(library);
    } else if (strcmp(mode, "elsewhere") == 0) {
        void *library = load(a[2]);
        make_in(chdir("/") == 0 ? library : NULL);
    } else if (strcmp(mode, "unnamed") == 0) {
        make_in(load_from_memory(a[2]));
    } else if (strcmp(mode, "twice") == 0) {
        void *first = load(a[2]);
        rename(a[3], a[2]);
        void *second = load(a[4]);
        make_in(second);
        make_in(first);
    }
    return 0;
}
#endif
