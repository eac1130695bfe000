/* target.h - a running process to attach to: its objects, its functions, and why it may not be possible.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_LAUNCHER_TARGET_H
#define LJTRACE_NATIVE_LAUNCHER_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* An object file in the process. */
struct target_object {
    uint64_t base;     /* where its ELF header is; 0 = the process does not have it */
    uint64_t from, to; /* its code */
};

enum { TARGET_MOST_ALLOCATORS = 8 };

struct target {
    pid_t pid;
    struct target_object libc, loader, library, ring; /* library, ring: this recorder's */
    /* Objects besides libc that define malloc. */
    struct target_object allocators[TARGET_MOST_ALLOCATORS];
    uint32_t allocator_count;
    uint64_t cave; /* code that the process never executes again, with room for TARGET_CAVE_BYTES */
    /* Functions of libc. */
    uint64_t dlopen, dlsym, dlerror, errno_location;
};

enum { TARGET_CAVE_BYTES = 512 };

/* Find out about a process; `library` is the path of the recorder's. Returns false after a message if it cannot be
 * recorded. */
bool target_open(struct target *t, pid_t pid, const char *library);
/* Look again where its recorder's library and ring are. Returns false, with errno, if that cannot be found out. */
bool target_find_library(struct target *t);
/* Does it still exist, and is it no zombie? */
bool target_lives(pid_t pid);
/* Does no other process trace a thread of it? Another ljtrace does that for some milliseconds, when it attaches or
 * detaches, and is waited for, for at most 2 seconds. `why` gets the reason if not. */
bool target_is_untraced(const struct target *t, char *why, size_t n);
/* Is so much memory below this address the thread's stack? */
bool target_has_stack(const struct target *t, uint64_t sp, uint64_t bytes);

/* Do the seccomp filters of its threads permit what the recorder needs? Returns false after a message if not, or if that
 * cannot be found out. */
bool target_permits_calls(const struct target *t);
/* Has one of its threads more seccomp filters than `known`, or the strict mode? */
bool target_has_more_filters(const struct target *t, uint32_t known);

/* Refuse to attach to the process: writes why, and returns false. */
bool target_refuse(const struct target *t, const char *why);

/* Read memory of the process, or write to it. */
bool target_read(const struct target *t, uint64_t at, void *to, size_t n);
bool target_write(const struct target *t, uint64_t at, const void *from, size_t n);
/* Does a copy of the process run that takes a snapshot (inside/copy.h)? False as well if that cannot be found out. */
bool target_copy_runs(const struct target *t);
/* The threads of the process. Returns their number, at most `most`. */
size_t target_threads(const struct target *t, pid_t *to, size_t most);

static inline bool target_is_in(const struct target_object *o, uint64_t address)
{
    return address >= o->from && address < o->to;
}

#endif
