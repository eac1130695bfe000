/* sites.c - reads the file of sites; see sites.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/sites.h"
#include "drivers/heap/raw_syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static bool complain(const char *path, const char *what)
{
    fprintf(stderr, "steve-replay: %s: %s\n", path, what);
    return false;
}

/* The next line without its end, as text for a picture: ASCII, since what is no UTF-8 cannot be drawn. False at the
 * end of the file, or if it is too long. */
static bool read_name(FILE *f, char name[SITE_NAME])
{
    if (!fgets(name, SITE_NAME, f))
        return false;
    char *end = strchr(name, '\n');
    if (!end)
        return false;
    *end = 0;
    for (char *c = name; *c; c++)
        if (*c < 32 || *c > 126)
            *c = '?';
    return true;
}

static bool read_names(FILE *f, const char *path, struct film_size *film)
{
    char name[SITE_NAME];
    for (film->sites = 0; read_name(f, name); film->sites++) {
        if (!*name)
            return true;
        if (film->sites == FILM_SITES)
            return complain(path, "has more than 5 names of sites before its empty line");
        memcpy(film->site_names[film->sites], name, sizeof name);
    }
    return complain(path,
                    "is no file of sites: lines of at most 62 bytes with names, an empty line, then digits");
}

bool sites_read(const char *path, struct job *job)
{
    struct stat facts;
    FILE *f = fopen(path, "re");
    if (!f || fstat(fileno(f), &facts) || !realpath(path, job->sites)) {
        complain(path, strerror(errno));
        if (f)
            fclose(f);
        return false;
    }
    bool good = read_names(f, path, &job->film);
    long at = ftell(f);
    fclose(f);
    job->sites_at = (uint64_t)at;
    job->sites_blocks = facts.st_size > at ? (uint64_t)(facts.st_size - at) : 0;
    return good;
}

const char *sites_map(const struct job *job)
{
    size_t size = job->sites_at + job->sites_blocks;
    long fd = raw_syscall(SYS_openat, AT_FDCWD, (long)job->sites, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (raw_failed(fd))
        return NULL;
    long at = raw_syscall(SYS_mmap, 0, (long)size, PROT_READ, MAP_PRIVATE, fd, 0);
    raw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    return raw_failed(at) ? NULL : (const char *)at + job->sites_at;
}

unsigned site_of_digit(char digit, const struct film_size *film)
{
    unsigned site = (unsigned)(digit - '0');
    return site < film->sites ? site : FILM_SITES;
}
