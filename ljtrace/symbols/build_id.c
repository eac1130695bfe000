/* build_id.c - the build id of an object file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/symbols/build_id.h"
#include <elf.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

size_t build_id_of(int fd, uint8_t id[BUILD_ID_MOST])
{
    const void *bytes = NULL;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    ssize_t size = elf ? dwelf_elf_gnu_build_id(elf, &bytes) : 0;
    if (size < 0 || size > BUILD_ID_MOST)
        size = 0;
    if (size)
        memcpy(id, bytes, (size_t)size);
    elf_end(elf);
    return (size_t)size;
}

size_t build_id_read(const char *path, uint8_t id[BUILD_ID_MOST])
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    const size_t size = build_id_of(fd, id);
    close(fd);
    return size;
}

/* -- in memory -- */

/* The first bytes of an image. */
struct bytes {
    const uint8_t *at;
    size_t n;
};

/* Copy a part. Returns false if not all of it is there. */
static bool copy(struct bytes from, uint64_t offset, void *to, size_t n)
{
    if (offset > from.n || n > from.n - offset)
        return false;
    memcpy(to, from.at + offset, n);
    return true;
}

static uint64_t aligned(uint64_t size)
{
    return (size + 3) & ~UINT64_C(3);
}

/* Find the build id among the notes of a segment. */
static size_t find_in_notes(struct bytes image, uint64_t at, uint64_t size, uint8_t id[BUILD_ID_MOST])
{
    Elf64_Nhdr note;
    char name[4];
    for (const uint64_t end = at + size; at < end && copy(image, at, &note, sizeof note);) {
        const uint64_t name_at = at + sizeof note, id_at = name_at + aligned(note.n_namesz);
        at = id_at + aligned(note.n_descsz);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof name &&
            note.n_descsz <= BUILD_ID_MOST && copy(image, name_at, name, sizeof name) &&
            memcmp(name, "GNU", sizeof name) == 0 && copy(image, id_at, id, note.n_descsz))
            return note.n_descsz;
    }
    return 0;
}

size_t build_id_in(const uint8_t *image, size_t n, uint8_t id[BUILD_ID_MOST])
{
    const struct bytes all = {image, n};
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    size_t size = 0;
    if (!copy(all, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof segment || header.e_phoff > n)
        return 0;
    for (unsigned i = 0; !size && i < header.e_phnum; i++)
        if (copy(all, header.e_phoff + i * sizeof segment, &segment, sizeof segment) &&
            segment.p_type == PT_NOTE && segment.p_offset <= n && segment.p_filesz <= n)
            size = find_in_notes(all, segment.p_offset, segment.p_filesz, id);
    return size;
}
