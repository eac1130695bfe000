/* mapped_file.c - see mapped_file.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The kernel has a way to a file that has no path any more: /proc/PID/exe for the program itself, and for all others
 * /proc/PID/map_files, which needs a privilege (CAP_CHECKPOINT_RESTORE).
 */
#include "ljtrace/collector/mapped_file.h"
#include "ljtrace/symbols/build_id.h"
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMOVED " (deleted)"
enum { LINE_BYTES = PATH_MAX + 200, IMAGE_MOST = 4096 };

/* A line of /proc/PID/maps. */
struct line {
    uint64_t from, to;
    char path[PATH_MAX];
};

/* Find the mapping that contains the object's address. */
static bool find_mapping(const struct mapped_file *m, struct line *found)
{
    char text[LINE_BYTES];
    bool is_there = false;
    snprintf(text, sizeof text, "/proc/%d/maps", m->process);
    FILE *maps = fopen(text, "re");
    while (maps && !is_there && fgets(text, sizeof text, maps)) {
        int path = 0;
        is_there = sscanf(text, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %*s %n", &found->from, &found->to,
                          &path) == 2 &&
                   m->start >= found->from && m->start < found->to;
        text[strcspn(text, "\n")] = 0;
        if (is_there)
            snprintf(found->path, sizeof found->path, "%s", text + path);
    }
    if (maps)
        fclose(maps);
    return is_there;
}

/* Remove the kernel's mark, unless it is a part of the file's name. */
static void remove_mark(char *path)
{
    const size_t n = strlen(path), mark = strlen(REMOVED);
    if (n > mark && strcmp(path + n - mark, REMOVED) == 0 && access(path, F_OK) != 0)
        path[n - mark] = 0;
}

const char *mapped_file_name(const struct mapped_file *m, char *to, size_t room)
{
    struct line line;
    const bool depends =
        m->path[0] != '/' || strncmp(m->path, "/proc/", 6) == 0 || strncmp(m->path, "/dev/fd/", 8) == 0;
    const bool is_known = depends && find_mapping(m, &line) && line.path[0] == '/';
    snprintf(to, room, "%s", is_known ? line.path : m->path);
    remove_mark(to);
    return to;
}

/* -- is it the same file? -- */

/* The number of bytes that are in memory as they are in the file: those of the first segment, or less. */
static size_t constant_bytes(const struct mapped_file *m)
{
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    if (m->image_bytes < sizeof header)
        return m->image_bytes;
    memcpy(&header, m->image, sizeof header);
    for (unsigned i = 0; i < header.e_phnum && header.e_phentsize == sizeof segment; i++) {
        const uint64_t at = header.e_phoff + i * sizeof segment;
        if (at > m->image_bytes || sizeof segment > m->image_bytes - at)
            break;
        memcpy(&segment, m->image + at, sizeof segment);
        if (segment.p_type == PT_LOAD && segment.p_offset == 0 && !(segment.p_flags & PF_W))
            return segment.p_filesz < m->image_bytes ? (size_t)segment.p_filesz : m->image_bytes;
    }
    return sizeof header;
}

static bool is_same(const struct mapped_file *m, int fd)
{
    uint8_t mapped[BUILD_ID_MOST], id[BUILD_ID_MOST], bytes[IMAGE_MOST];
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    const size_t size = build_id_in(m->image, m->image_bytes, mapped);
    if (size)
        return build_id_of(fd, id) == size && memcmp(id, mapped, size) == 0;
    size_t n = constant_bytes(m);
    n = n < sizeof bytes ? n : sizeof bytes;
    return pread(fd, bytes, n, 0) == (ssize_t)n && memcmp(bytes, m->image, n) == 0;
}

/* -- where it may be -- */

static int open_same(const struct mapped_file *m, const char *path, bool *is_there)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *is_there = fd >= 0;
    if (fd < 0 || is_same(m, fd))
        return fd;
    close(fd);
    return -1;
}

/* Open it by a link of the process in /proc. */
static int open_link(const struct mapped_file *m, const char *link)
{
    char path[PATH_MAX + 40];
    bool is_there;
    snprintf(path, sizeof path, "/proc/%d/%s", m->process, link);
    return open_same(m, path, &is_there);
}

static int open_mapping(const struct mapped_file *m)
{
    struct line line;
    char link[60];
    if (!find_mapping(m, &line))
        return -1;
    snprintf(link, sizeof link, "map_files/%" PRIx64 "-%" PRIx64, line.from, line.to);
    return open_link(m, link);
}

int mapped_file_open(const struct mapped_file *m, const char *name, int *another)
{
    char link[PATH_MAX + 8];
    bool is_there;
    int fd = open_same(m, name, &is_there);
    *another = is_there && fd < 0;
    snprintf(link, sizeof link, "root%s", name);
    if (fd < 0 && name[0] == '/')
        fd = open_link(m, link);
    if (fd < 0)
        fd = open_link(m, "exe");
    if (fd < 0)
        fd = open_mapping(m);
    return fd;
}
