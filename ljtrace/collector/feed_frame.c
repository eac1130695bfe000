/* feed_frame.c - names, source lines and inlined functions of C frames in the collector.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A frame has its address in the object's file, for which debuginfo.c looks up the line and the functions that were
 * inlined there. Valgrind knows the name of the function; for the native library it is looked up, too. Frames of Lua are
 * handled by feed_lua.c.
 *
 * Lines of the C library are not looked up for a sample of the blocks. Debian's debug file of it is compressed; reading
 * it takes 50 ms, more than all else that the collector does for a program that is sampled. `steve symbolize` adds them.
 */
#include "ljtrace/collector/feed_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy of a string; the caller frees it. */
static char *copy_text(struct raw_text text)
{
    char *copy = strndup(text.at, text.bytes);
    if (!copy)
        abort();
    return copy;
}

/* A code address with more inlined functions than this gets the innermost of them. */
enum { FRAMES_MOST = 200 };

static uint32_t string_of(struct feed *f, const char *text)
{
    return mt_writer_string(f->writer, text, strlen(text));
}

/* Look up the lines and inlined functions of a frame. Returns the number of frames.
 * frame[0] is the frame without them; address: of its code in the object's file. */
static uint32_t find_frames(struct feed *f, struct mt_frame *frame, struct debuginfo_object *file,
                            uint64_t address)
{
    const struct debuginfo_frame *found;
    size_t count = debuginfo_find(f->debuginfo, file, address, &found), inlined = count ? count - 1 : 0;
    const struct mt_frame own = frame[0];
    if (inlined >= FRAMES_MOST)
        inlined = FRAMES_MOST - 1;
    for (size_t i = 0; count && i <= inlined; i++) {
        const struct debuginfo_frame *d = i < inlined ? &found[i] : &found[count - 1];
        frame[i] = own;
        if (d->function) {
            frame[i].function = string_of(f, d->function);
            frame[i].kind = MT_FRAME_INLINED;
        }
        frame[i].line = d->line;
        frame[i].file = d->line ? string_of(f, d->file) : 0;
    }
    return (uint32_t)inlined + 1;
}

static bool ends_with(struct raw_text object, const char *name)
{
    const size_t n = strlen(name);
    return object.bytes >= n && memcmp(object.at + object.bytes - n, name, n) == 0;
}

static bool is_c_library(struct raw_text object)
{
    static const char *const names[] = {"/libc.so.6", "/ld-linux-x86-64.so.2"};
    return ends_with(object, names[0]) || ends_with(object, names[1]);
}

/* Is it one of the recorder's own libraries? The profilers are also known by the name under which Lua finds them. */
static bool is_recorders(struct raw_text object)
{
    static const char *const names[] = {"/libljtrace-native.so", "/libljtrace-lua.so", "/ljtrace/misc.so",
                                        "/vgpreload_ljtrace-amd64-linux.so"};
    bool found = false;
    for (size_t i = 0; !found && i < sizeof names / sizeof *names; i++)
        found = ends_with(object, names[i]);
    return found;
}

/* The function of a frame, as the recorder or the object's symbols name it. */
static uint32_t function_of(struct feed *f, const struct ring_frame *r, struct debuginfo_object *file)
{
    if (r->function.bytes || !r->in_file || !file)
        return mt_writer_string(f->writer, r->function.at, r->function.bytes);
    const char *name = debuginfo_function(f->debuginfo, file, r->in_file);
    return name ? string_of(f, name) : 0;
}

/* The file of an object that was not announced. */
static struct debuginfo_object *file_at(struct feed *f, struct raw_text object)
{
    char *path = copy_text(object);
    struct debuginfo_object *file = debuginfo_at(f->debuginfo, path);
    free(path);
    return file;
}

const char *handle_frame(struct feed *f, const struct ring_frame *r)
{
    const struct feed_module *module = feed_module_of(f, r->ip, r->object);
    struct debuginfo_object *file = module ? module->file : r->object.bytes ? file_at(f, r->object) : NULL;
    struct mt_frame frame[FRAMES_MOST] = {{
        .ip = r->ip,
        .function = function_of(f, r, file),
        .object = module ? module->object : mt_writer_string(f->writer, r->object.at, r->object.bytes),
    }};
    uint32_t count = 1;
    if (r->in_file && file && !(f->sampled && is_c_library(r->object)))
        count = find_frames(f, frame, file, r->in_file);
    stacks_define(&f->stacks, r->ip, frame, count);
    if (is_recorders(r->object))
        stacks_leave_out(&f->stacks, r->ip);
    return NULL;
}

/* The message about objects whose source lines are missing. */
struct missing {
    char text[600];
    size_t used;
    unsigned objects, shown;
};

static void add_missing(void *ctx, const char *object, const char *why)
{
    struct missing *m = ctx;
    int n = snprintf(m->text + m->used, sizeof m->text - m->used, "%s%s (%s)", m->objects ? ", " : "", object,
                     why);
    m->objects++;
    if (n > 0 && (size_t)n < sizeof m->text - m->used) {
        m->used += (size_t)n;
        m->shown++;
    } else {
        m->text[m->used] = 0;
    }
}

size_t feed_missing_lines(const struct feed *f, char *to, size_t room)
{
    struct missing m = {.used = 0};
    debuginfo_problems(f->debuginfo, add_missing, &m);
    if (!m.objects)
        return 0;
    int n = snprintf(to, room, "functions or lines are missing, as debug information cannot be read, of %s",
                     m.text);
    if (n > 0 && (size_t)n < room && m.shown < m.objects)
        n += snprintf(to + n, room - (size_t)n, "%s%u more", m.shown ? " and " : "", m.objects - m.shown);
    return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}
