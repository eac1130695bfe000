/* build_id.c - the build id of an object file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/symbols/build_id.h"
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

size_t build_id_read(const char *path, uint8_t id[BUILD_ID_MOST])
{
    const void *bytes = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    ssize_t size = elf ? dwelf_elf_gnu_build_id(elf, &bytes) : 0;
    if (size < 0 || size > BUILD_ID_MOST)
        size = 0;
    if (size)
        memcpy(id, bytes, (size_t)size);
    elf_end(elf);
    close(fd);
    return (size_t)size;
}
