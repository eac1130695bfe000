/* mapped_file.h - open the file that the program has mapped.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The path of a mapped file may lead to another file by now: packages are upgraded and programs are built again while
 * they run. It may lead to none, if the file was removed or never had a name, and it may be meant in other mounts than
 * those of the collector. So a file is used only if it begins as what is in memory: it has the same build id or, if
 * there is none in memory, the same first bytes.
 */
#ifndef LJTRACE_COLLECTOR_MAPPED_FILE_H
#define LJTRACE_COLLECTOR_MAPPED_FILE_H

#include <stddef.h>
#include <stdint.h>

/* An object that a process has mapped. */
struct mapped_file {
    int process;
    uint64_t start;       /* an address in it */
    const char *path;     /* as the process calls it */
    const uint8_t *image; /* its first bytes in memory; none = any file of that path is taken */
    size_t image_bytes;
};

/* What the file is called in the process: an absolute path, without the kernel's mark of a file that was removed. Returns
 * `to`. */
const char *mapped_file_name(const struct mapped_file *m, char *to, size_t room);
/* Open it; name: that of mapped_file_name. Returns a descriptor, -1 = it was not found; *another says whether there is
 * another file at the path. */
int mapped_file_open(const struct mapped_file *m, const char *name, int *another);

#endif
