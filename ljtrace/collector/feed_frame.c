/* feed_frame.c - frames of C in the collector: their names, and source lines where the tool left these to us.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind names each code address. Of the system's files it reads no source lines, since that took longer
 * than a short program (docs/internals/recorder.md); such a frame comes with its address in the object's
 * file, where debuginfo.c looks the line up. Frames of Lua are feed_lua.c's.
 */
#include "feed_parts.h"
#include <stdlib.h>
#include <string.h>

/* Look up the line of a frame whose code is at an address in the object's file. */
static void find_line(struct feed *f, struct mt_frame *frame, const char *object, uint32_t size,
                      uint64_t address)
{
    struct debuginfo_line line;
    char *path = strndup(object, size);
    if (!path)
        abort();
    if (debuginfo_find(f->debuginfo, path, address, &line)) {
        frame->line = line.line;
        frame->file = mt_writer_string(f->writer, line.file, (uint32_t)strlen(line.file));
    }
    free(path);
}

const char *feed_frame(struct feed *f, const struct raw *r)
{
    uint32_t function = (uint32_t)r->word[2], file = r->word[2] >> 32, object = (uint32_t)r->word[3];
    const char *text = feed_text(r, 5, 0, (uint64_t)function + file + object);
    if (!text)
        return "frame with strings beyond its end";
    struct mt_frame frame = {
        .ip = r->word[0],
        .line = (uint32_t)r->word[1],
        .function = mt_writer_string(f->writer, text, function),
        .file = mt_writer_string(f->writer, text + function, file),
        .object = mt_writer_string(f->writer, text + function + file, object),
    };
    if (r->word[4] && object)
        find_line(f, &frame, text + function + file, object, r->word[4]);
    stacks_define(&f->stacks, &frame);
    return NULL;
}
