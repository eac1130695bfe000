/* kept_plan.c - keeps the plan of an ops file in a file, for the replays after the first.
 *
 * Reading a large ops file takes several times as long as replaying it, and steve tune replays one file often. The kept file has the plan as it is in memory, and at its end a record of what it was made of. It is used only if
 * this user made it with this steve-replay, and the ops file is still the same; otherwise it is made again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/plan/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

struct identity {
    uint64_t device, inode, size, seconds, nanoseconds;
};

/* What is at the end of the kept file. All bytes are set, also those between the members, since they are compared. */
struct ending {
    char text[48];
    struct identity program, ops;
    uint64_t accesses, threads; /* the options */
    struct plan_facts facts;
};

static bool identify(const char *path, struct identity *to)
{
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode))
        return false;
    *to = (struct identity){.device = s.st_dev,
                            .inode = s.st_ino,
                            .size = (uint64_t)s.st_size,
                            .seconds = (uint64_t)s.st_mtim.tv_sec,
                            .nanoseconds = (uint64_t)s.st_mtim.tv_nsec};
    return true;
}

/* The ending of a plan that would be made now, without its facts. False if the ops file is a pipe, or is not there. */
static bool describe(struct ending *e, const char *path, struct plan_options options)
{
    memset(e, 0, sizeof *e);
    snprintf(e->text, sizeof e->text, "steve-replay plan, %s", PACKAGE_VERSION);
    e->accesses = options.accesses;
    e->threads = options.threads;
    return identify("/proc/self/exe", &e->program) && identify(path, &e->ops);
}

/* Can nobody else have written the file? */
static bool is_own(const struct stat *s)
{
    return S_ISREG(s->st_mode) && s->st_uid == geteuid() && !(s->st_mode & (S_IWGRP | S_IWOTH));
}

static bool take(struct plan *plan, const char *kept, const struct ending *wanted)
{
    struct ending found;
    struct stat s;
    const int fd = open(kept, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const size_t same = offsetof(struct ending, facts);
    const bool good = fd >= 0 && fstat(fd, &s) == 0 && is_own(&s) && s.st_size >= (off_t)sizeof found &&
                      pread(fd, &found, sizeof found, s.st_size - (off_t)sizeof found) == sizeof found &&
                      memcmp(&found, wanted, same) == 0 &&
                      found.facts.steps <= (uint64_t)s.st_size / sizeof(struct step);
    if (good)
        *plan = (struct plan){.fd = fd, .facts = found.facts};
    else if (fd >= 0)
        close(fd);
    return good;
}

static bool copy_all(int to, int from)
{
    struct stat s;
    off_t at = 0;
    if (fstat(from, &s) != 0)
        return false;
    while (at < s.st_size) {
        const ssize_t n = sendfile(to, from, &at, (size_t)(s.st_size - at));
        if (n == 0)
            errno = EIO; /* the source has become shorter */
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
    }
    return true;
}

/* Write the kept file beside its place, and then move it there: a plan that is not whole has another name. */
static bool keep(const struct plan *plan, const char *kept, struct ending *ending)
{
    char part[4096];
    if (snprintf(part, sizeof part, "%s.%ld.part", kept, (long)getpid()) >= (int)sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    const int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    ending->facts = plan->facts;
    bool good = fd >= 0 && copy_all(fd, plan->fd) && write(fd, ending, sizeof *ending) == sizeof *ending;
    good = fd >= 0 && close(fd) == 0 && good && rename(part, kept) == 0;
    const int why = errno;
    if (fd >= 0 && !good)
        unlink(part);
    errno = why;
    return good;
}

bool plan_read_kept(struct plan *plan, const char *path, const char *kept, struct plan_options options,
                    char *text, unsigned text_size)
{
    struct ending ending;
    text[0] = 0;
    if (!describe(&ending, path, options))
        return plan_read(plan, path, options, text, text_size);
    if (take(plan, kept, &ending))
        return true;
    if (!plan_read(plan, path, options, text, text_size))
        return false;
    if (!keep(plan, kept, &ending))
        snprintf(text, text_size, "%s: the plan of %s cannot be kept: %s", kept, path, strerror(errno));
    return true;
}
