/* mktrace.c - make a memtrace from a script, for the tests.
 *
 *     mktrace OUT [EVENTS-PER-CHUNK [CHUNKS-PER-CHECKPOINT]] <script
 *
 * A script has one command on each line. Numbers are decimal or 0x... Stacks and heaps are numbered in the order
 * of their definition, from 1; stack 0 is none, heap 0 is the C heap:
 *
 *     info KEY VALUE            stack FRAME...  (callers first)        heap ID malloc|lua|mmap|custom
 *     thread N                  time INSTRUCTIONS                      mark NAME
 *     N ADDR SIZE [STACK [HEAP]]      F ADDR [STACK [HEAP]]            R OLD ADDR SIZE [STACK [HEAP]]
 *     L|S|M ADDR SIZE           lost EVENTS REASON                     flush
 *     sample WEIGHT STACK HEAP VM      (VM: number of enum mt_vm)
 *     state HEAP VM [TRACE]            type ADDR HEAP TYPE     (TYPE: number of enum mt_type)
 *     snapshot NAME HEAP TOTAL INTERNAL        object TYPE[@ADDR] SIZE [NAME|- [dead|root]]       endsnapshot
 *     link FROM TO KIND [NAME-OR-INDEX [weak]] (objects by number from 0; TYPE, KIND: names of the enums)
 *     at FRAME  (the place of the accesses that follow)                call FRAME
 *     proto ADDR HEAP OFFSET FILE[/DEFINED] LINE...    (of the block at ADDR; a line for each instruction)
 *     pages TIME REASON MARK|- THREADS RESERVED MAPPINGS REGIONS [HIGHEST]
 *     region START SIZE STACK   (of the last pages)
 *     mapping START SIZE FLAGS RSS NAME|- [PAGES:STATE...]             (of 4096 bytes; FLAGS, STATE: numbers)
 *     module START SIZE OBJECT
 *     end NAME                  (of enum mt_ending; without it the file has no END chunk)
 *
 * A FRAME is FUNCTION or FUNCTION@FILE:LINE for C, FUNCTION@@FILE:LINE/DEFINED for Lua, [OBJECT] for code
 * without a name; =FUNCTION is a function whose name may begin with a bracket.
 *
 * A wrong script ends the program with the number of the line. Not installed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memtrace/memtrace.h"

#define MANY 4096

static struct mt_writer *s_writer;
static uint32_t s_stacks[MANY], s_heaps[MANY];
static unsigned s_n_stacks = 1, s_n_heaps = 1;
static struct {
    uint8_t kind;
    uint32_t size, frame, id;
} s_sites[MANY];
static unsigned s_n_sites, s_line;
static uint32_t s_at; /* frame of the accesses that follow */

static void fail(const char *why)
{
    fprintf(stderr, "mktrace: line %u: %s\n", s_line, why);
    exit(1);
}

static uint64_t number(char **rest)
{
    char *word = strsep(rest, " ");

    return word && *word ? strtoull(word, NULL, 0) : 0;
}

static uint32_t string(const char *s)
{
    return mt_writer_string(s_writer, s ? s : "", s ? strlen(s) : 0);
}

static uint32_t frame_of(char *word)
{
    struct mt_frame frame = {.ip = 0x1000 + s_line};
    char *function = strsep(&word, "@"), *file = strsep(&word, ":");
    char *defined = word ? strchr(word, '/') : NULL;

    if (*function == '[')
        frame.object = string(function);
    else
        frame.function = string(function + (*function == '='));
    frame.file = string(file);
    frame.kind = file && *file == '@' ? MT_FRAME_LUA : MT_FRAME_HOST;
    frame.defined = defined ? (uint32_t)strtoul(defined + 1, &defined, 0) : 0;
    frame.nth = defined && *defined == '#' ? (uint16_t)strtoul(defined + 1, NULL, 0) : 0;
    frame.line = word ? (uint32_t)strtoul(word, NULL, 0) : 0;
    return mt_writer_frame(s_writer, &frame);
}

static void define_stack(char *rest)
{
    uint32_t stack = 0;
    char *word;

    if (s_n_stacks == MANY)
        fail("too many stacks");
    while ((word = strsep(&rest, " ")) != NULL)
        stack = mt_writer_stack(s_writer, stack, frame_of(word));
    s_stacks[s_n_stacks++] = stack;
}

static void define_heap(char *rest)
{
    struct mt_heap heap = {.id = number(&rest)};

    while (heap.kind < MT_HEAP_KINDS && strcmp(rest, mt_heap_kind_name(heap.kind)) != 0)
        heap.kind++;
    if (s_n_heaps == MANY || heap.kind == MT_HEAP_KINDS)
        fail("heap ID malloc|lua|mmap|custom");
    s_heaps[s_n_heaps++] = mt_writer_heap(s_writer, &heap);
}

static uint32_t site_of(uint8_t kind, uint32_t size)
{
    unsigned i = 0;

    while (i < s_n_sites && (s_sites[i].kind != kind || s_sites[i].size != size || s_sites[i].frame != s_at))
        i++;
    if (i == MANY)
        fail("too many kinds of access");
    if (i == s_n_sites) {
        struct mt_site site = {.ip = 0x400000 + 16 * i, .frame = s_at, .size = size, .kind = kind};

        s_sites[s_n_sites].kind = kind;
        s_sites[s_n_sites].size = size;
        s_sites[s_n_sites].frame = s_at;
        s_sites[s_n_sites++].id = mt_writer_site(s_writer, &site);
    }
    return s_sites[i].id;
}

static void access_memory(char letter, char *rest)
{
    uint64_t addr = number(&rest);
    uint8_t kind = letter == 'L' ? MT_LOAD : letter == 'S' ? MT_STORE : MT_MODIFY;
    uint32_t site = site_of(kind, (uint32_t)number(&rest));

    mt_writer_accesses(s_writer, &site, &addr, 1);
}

static void change_heap(char letter, char *rest)
{
    uint64_t old = letter == 'R' ? number(&rest) : 0;
    uint64_t addr = number(&rest);
    uint64_t size = letter == 'F' ? 0 : number(&rest);
    uint64_t stack_number = number(&rest), heap_number = number(&rest);
    uint32_t stack, heap;

    if (stack_number >= s_n_stacks || heap_number >= s_n_heaps)
        fail("stack or heap is not defined");
    stack = s_stacks[stack_number];
    heap = s_heaps[heap_number];
    if (letter == 'N')
        mt_writer_block_new(s_writer, addr, size, heap, MT_HOW_MALLOC, stack);
    else if (letter == 'F')
        mt_writer_block_free(s_writer, addr, heap, stack);
    else
        mt_writer_block_resize(s_writer, old, addr, size, heap, MT_HOW_REALLOC, stack);
}

static enum mt_ending ending_named(const char *name)
{
    int e = 0;

    while (e < MT_ENDINGS && strcmp(name, mt_ending_name((enum mt_ending)e)) != 0)
        e++;
    if (e == MT_ENDINGS)
        fail("no such ending");
    return (enum mt_ending)e;
}

static void add_sample(char *rest)
{
    uint64_t weight = number(&rest), stack_number = number(&rest), heap_number = number(&rest);

    if (stack_number >= s_n_stacks || heap_number >= s_n_heaps)
        fail("stack or heap is not defined");
    mt_writer_sample(s_writer, s_heaps[heap_number], (enum mt_vm)number(&rest), s_stacks[stack_number],
                     weight);
}

static uint32_t heap_at(char **rest)
{
    uint64_t i = number(rest);

    if (i >= s_n_heaps)
        fail("heap is not defined");
    return s_heaps[i];
}

static void tell_state(char *rest)
{
    uint32_t heap = heap_at(&rest);
    enum mt_vm vm = (enum mt_vm)number(&rest);

    mt_writer_state(s_writer, heap, vm, (uint32_t)number(&rest));
}

static void tell_type(char *rest)
{
    uint64_t addr = number(&rest);
    uint32_t heap = heap_at(&rest);

    mt_writer_type(s_writer, addr, heap, (enum mt_type)number(&rest));
}

static void define_proto(char *rest)
{
    uint64_t addr = number(&rest);
    uint32_t heap = heap_at(&rest), lines[64];
    struct mt_proto p = {.offset = (uint32_t)number(&rest), .lines = lines};
    char *file, *defined;

    file = strsep(&rest, " ");
    defined = file ? strchr(file, '/') : NULL;
    p.defined = defined ? (uint32_t)strtoul(defined + 1, NULL, 0) : 0;
    if (defined)
        *defined = '\0';
    p.file = string(file);
    while (rest && p.count < 64)
        lines[p.count++] = (uint32_t)number(&rest);
    mt_writer_proto(s_writer, addr, heap, &p);
}

static void begin_snapshot(char *rest)
{
    struct mt_snapshot s = {.name = string(strsep(&rest, " "))};

    s.heap = s_heaps[number(&rest)];
    s.total = number(&rest);
    s.internal = number(&rest);
    mt_writer_snapshot_begin(s_writer, &s);
}

static void add_object(char *rest)
{
    static uint64_t addr;
    char *at = strsep(&rest, " ");
    const char *type = strsep(&at, "@"), *name, *flag;
    struct mt_object o = {.addr = at ? strtoull(at, NULL, 0) : (addr += 4096)};

    while (o.type < MT_TYPES && strcmp(type, mt_type_name((enum mt_type)o.type)) != 0)
        o.type++;
    o.size = number(&rest);
    name = strsep(&rest, " ");
    flag = rest ? rest : "";
    o.name = name && strcmp(name, "-") != 0 ? string(name) : 0;
    o.dead = strcmp(flag, "dead") == 0;
    o.root = strcmp(flag, "root") == 0;
    mt_writer_object(s_writer, &o);
}

static void add_link(char *rest)
{
    struct mt_link l = {.from = (uint32_t)number(&rest)};
    const char *kind, *name;

    l.to = (uint32_t)number(&rest);
    kind = strsep(&rest, " ");
    while (l.kind < MT_LINK_KINDS && strcmp(kind, mt_link_kind_name((enum mt_link_kind)l.kind)) != 0)
        l.kind++;
    name = strsep(&rest, " ");
    if (l.kind == MT_LINK_ARRAY)
        l.name = name ? (uint32_t)strtoul(name, NULL, 0) : 0;
    else
        l.name = name ? string(name) : 0;
    l.weak = rest != NULL;
    mt_writer_link(s_writer, &l);
}

/* Execute a command about snapshots, samples, states, types, prototypes or calls; false if it is another one. */
static bool define_lua(const char *word, char *rest)
{
    if (strcmp(word, "sample") == 0)
        add_sample(rest);
    else if (strcmp(word, "state") == 0)
        tell_state(rest);
    else if (strcmp(word, "type") == 0)
        tell_type(rest);
    else if (strcmp(word, "proto") == 0)
        define_proto(rest);
    else if (strcmp(word, "call") == 0)
        mt_writer_call(s_writer, frame_of(rest));
    else if (strcmp(word, "snapshot") == 0)
        begin_snapshot(rest);
    else if (strcmp(word, "object") == 0)
        add_object(rest);
    else if (strcmp(word, "link") == 0)
        add_link(rest);
    else if (strcmp(word, "endsnapshot") == 0)
        mt_writer_snapshot_end(s_writer);
    else
        return false;
    return true;
}

/* The time of the last pages, to which mappings and regions belong. */
static uint64_t s_pages;

static void add_pages(char *rest)
{
    struct mt_pages p = {.time = number(&rest), .page = 4096};
    const char *name;

    p.reason = string(strsep(&rest, " "));
    name = strsep(&rest, " ");
    p.name = name && strcmp(name, "-") != 0 ? string(name) : 0;
    p.threads = (uint32_t)number(&rest);
    p.reserved = number(&rest);
    p.mappings = (uint32_t)number(&rest);
    p.regions = (uint32_t)number(&rest);
    p.highest = number(&rest);
    s_pages = p.time;
    mt_writer_pages(s_writer, &p);
}

static void add_mapping(char *rest)
{
    struct mt_mapping m = {.start = number(&rest)};
    uint8_t runs[256];
    const char *name;
    char *run;

    m.size = number(&rest);
    m.flags = (uint32_t)number(&rest);
    m.rss = m.pss = number(&rest);
    name = strsep(&rest, " ");
    m.name = name && strcmp(name, "-") != 0 ? string(name) : 0;
    m.runs = runs;
    while ((run = strsep(&rest, " ")) != NULL && m.runs_size < sizeof runs - 10) {
        uint64_t pages = strtoull(run, &run, 0);
        uint64_t value = pages << MT_PAGE_STATE_BITS | strtoull(run + 1, NULL, 0);

        for (; value >= 128; value >>= 7)
            runs[m.runs_size++] = (uint8_t)(value | 128);
        runs[m.runs_size++] = (uint8_t)value;
    }
    mt_writer_mapping(s_writer, s_pages, &m);
}

static void add_region(char *rest)
{
    struct mt_region r = {.start = number(&rest)};

    r.size = number(&rest);
    r.stack = s_stacks[number(&rest) % MANY];
    mt_writer_region(s_writer, s_pages, &r);
}

static void add_module(char *rest)
{
    struct mt_module m = {.start = number(&rest)};

    m.bias = m.start;
    m.size = number(&rest);
    m.object = string(rest);
    mt_writer_module(s_writer, &m);
}

/* Execute a command about the memory of the process; false if it is another one. */
static bool define_pages(const char *word, char *rest)
{
    if (strcmp(word, "pages") == 0)
        add_pages(rest);
    else if (strcmp(word, "mapping") == 0)
        add_mapping(rest);
    else if (strcmp(word, "region") == 0)
        add_region(rest);
    else if (strcmp(word, "module") == 0)
        add_module(rest);
    else
        return false;
    return true;
}

static void define(const char *word, char *rest)
{
    if (define_lua(word, rest) || define_pages(word, rest))
        return;

    if (strcmp(word, "info") == 0) {
        char *key = strsep(&rest, " ");

        mt_writer_info(s_writer, key, rest ? rest : "");
    } else if (strcmp(word, "stack") == 0) {
        define_stack(rest);
    } else if (strcmp(word, "heap") == 0) {
        define_heap(rest);
    } else if (strcmp(word, "at") == 0) {
        s_at = frame_of(rest);
    } else if (strcmp(word, "thread") == 0) {
        mt_writer_thread(s_writer, (uint16_t)number(&rest));
    } else if (strcmp(word, "time") == 0) {
        mt_writer_time(s_writer, number(&rest));
    } else if (strcmp(word, "mark") == 0) {
        mt_writer_mark(s_writer, string(rest));
    } else if (strcmp(word, "lost") == 0) {
        uint64_t events = number(&rest);

        mt_writer_lost(s_writer, events, string(rest));
    } else if (strcmp(word, "flush") == 0) {
        mt_writer_flush(s_writer);
    } else {
        fail("unknown command");
    }
}

static void obey(char *line)
{
    char *word = strsep(&line, " ");

    if (word[0] != '\0' && word[1] != '\0')
        define(word, line);
    else if (strchr("LSM", *word) != NULL && *word)
        access_memory(*word, line);
    else if (strchr("NFR", *word) != NULL && *word)
        change_heap(*word, line);
}

/* Execute all lines of the script; true if it has the command `end`. */
static bool obey_all(enum mt_ending *ending)
{
    char line[4096];

    while (fgets(line, sizeof line, stdin)) {
        s_line++;
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "end ", 4) == 0) {
            *ending = ending_named(line + 4);
            return true;
        }
        obey(line);
    }
    return false;
}

int main(int argc, char **argv)
{
    struct mt_writer_options options = {0};
    struct mt_error error;
    enum mt_ending ending;
    int fd;

    if (argc < 2) {
        fprintf(stderr, "usage: mktrace OUT [EVENTS-PER-CHUNK [CHUNKS-PER-CHECKPOINT]] <script\n");
        return 2;
    }
    options.chunk_events = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 0;
    options.checkpoint_interval = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 0) : 0;
    fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0666);
    s_writer = fd < 0 ? NULL : mt_writer_new(fd, &options, &error);
    if (!s_writer)
        fail("cannot write the file");
    if (!obey_all(&ending))
        return mt_writer_flush(s_writer) == MT_ERROR;
    return mt_writer_finish(s_writer, ending, &error) == MT_ERROR;
}
