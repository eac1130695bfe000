/* sink.c - open the collector's output: a file, standard output, or a process that makes text or runs a command.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "ljtrace/collector/sink.h"
#include "ljtrace/protocol/trace_name.h"
#include "memtrace/memtrace.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* -- classic text -- */

/* Classic text is what the old patched tools wrote. It is for users who want to watch the events or have
 * scripts for this form. It has no stacks and no threads, and takes 100 times the bytes. `steve memtrace`
 * makes the same text from a memtrace file. */

/* The first line, with the process ("PID@START"). Readers skip it. */
#define TEXT_FIRST_LINE "# ljtrace: process %s\n"

static void line(FILE *out, char letter, uint64_t addr, uint64_t size)
{
    fprintf(out, ">>> %c %" PRIu64 " %" PRIu64 "\n", letter, addr, size);
}

static void write_event(FILE *out, const struct mt_event *e)
{
    switch (e->kind) {
    case MT_NEW:
    case MT_LOAD:
    case MT_STORE:
    case MT_MODIFY:
        line(out, mt_kind_letter(e->kind), e->addr, e->size);
        break;
    case MT_FREE:
        line(out, 'F', e->addr, 0);
        break;
    case MT_RESIZE:
        line(out, 'F', e->old_addr, 0);
        line(out, 'N', e->addr, e->size);
        break;
    default: /* classic text has no other events */
        break;
    }
}

static int write_all(struct mt_reader *r, FILE *out)
{
    const struct mt_event *events;
    size_t n;
    int result;
    while ((result = mt_next(r, &events, &n)) == MT_MORE) {
        for (size_t i = 0; i < n; i++)
            write_event(out, &events[i]);
        if (fflush(out) != 0)
            return 1;
    }
    return result == MT_END ? 0 : 1;
}

/* Read a memtrace from descriptor `in` until its end and write `>>> OP ADDRESS SIZE` lines to `out`, each as
 * soon as its event is read. A Resize becomes a Free and a New. Returns an exit status: 0, or 1 if reading or
 * writing fails. */
static int text_write(int in, int out, const char *process)
{
    char path[40];
    struct mt_error err;
    snprintf(path, sizeof path, "/proc/self/fd/%d", in);
    FILE *f = fdopen(out, "w");
    struct mt_reader *r = mt_open(path, MT_OPEN_DEFAULT, &err);
    if (!f || !r)
        return 1;
    fprintf(f, TEXT_FIRST_LINE, process);
    int status = write_all(r, f);
    mt_close(r);
    return fclose(f) != 0 || status;
}

/* -- outputs -- */

/* The start time of a process is field 22 of /proc/PID/stat. The name in parentheses is skipped, since it may
 * contain spaces. */
bool sink_process(int pid, char *out, size_t room)
{
    char path[40], text[1024], start[32];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, "%31s", start) != 1)
        return false;
    snprintf(out, room, "%d@%s", pid, start);
    return true;
}

/* Is the file classic text of a process, or of any if that is ""? */
static bool text_is_of(const char *name, const char *process)
{
    char line[100], expected[100];
    FILE *f = fopen(name, "re");
    bool have = f && fgets(line, sizeof line, f);
    if (f)
        fclose(f);
    snprintf(expected, sizeof expected, TEXT_FIRST_LINE, process);
    return have && strncmp(line, expected, process[0] ? sizeof line : strcspn(expected, "\n")) == 0;
}

bool sink_is_of(const char *name, const char *process)
{
    struct stat st;
    const struct mt_event *events;
    size_t n;
    if (name[0] == '|' || sink_descriptor(name) >= 0 || stat(name, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    if (text_is_of(name, process))
        return true;
    struct mt_error err;
    struct mt_reader *r = mt_open(name, MT_OPEN_DEFAULT, &err);
    if (!r)
        return false;
    mt_next(r, &events, &n); /* the facts come before the events, which do not matter here */
    bool same = strcmp(mt_info(r, "process"), process) == 0;
    mt_close(r);
    return same;
}

int sink_descriptor(const char *name)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    int number, end = 0;
    if (strcmp(name, "-") == 0 || strcmp(name, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(name, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        size_t length = strlen(folders[i]);
        if (strncmp(name, folders[i], length) == 0 && sscanf(name + length, "%9d%n", &number, &end) == 1)
            return name[length + (size_t)end] ? -1 : number;
    }
    return -1;
}

/* Run a command. It must not inherit the collector's ignored signals. */
static void exec_command(const char *command, int in)
{
    static const int ignored[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGPIPE, SIGTSTP, SIGCHLD, SIGXFSZ};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_DFL);
    dup2(in, STDIN_FILENO);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

/* Start a child that reads from a pipe. It runs `command` or, if that is NULL, writes text to `out`. Returns
 * the descriptor to write to, or -1. */
static int start_reader(struct sink *s, const char *command, int out, const char *process)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        if (command)
            exec_command(command, ends[0]);
        _exit(text_write(ends[0], out, process));
    }
    close(ends[0]);
    if (child > 0)
        s->child[s->children++] = child;
    else
        close(ends[1]);
    return child > 0 ? ends[1] : -1;
}

/* Is there a file of that name which is no trace? It is not replaced: it may be the script that the command line names. Traces
 * that were cut, and empty files, are replaced. */
static bool is_others(const char *name)
{
    struct stat st;
    struct mt_error err;
    const struct mt_event *events;
    size_t n;
    if (stat(name, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0 || text_is_of(name, ""))
        return false;
    struct mt_reader *r = mt_open(name, MT_OPEN_DEFAULT, &err);
    if (!r)
        return err.code == MT_E_FORMAT;
    const bool is = mt_next(r, &events, &n) == MT_ERROR && mt_reader_error(r)->code == MT_E_FORMAT;
    mt_close(r);
    return is;
}

/* Lock a file and empty it. Fails with EWOULDBLOCK if another process is writing it. The lock ends with the
 * last copy of the descriptor. An output that is not a file is left as it is; a file that cannot be locked is
 * only emptied. */
static bool take_file(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return true;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    return ftruncate(fd, 0) == 0;
}

static int open_file(struct sink *s, const char *name, bool draft)
{
    if (is_others(name)) {
        errno = EEXIST;
        return -1;
    }
    if (draft && asprintf(&s->draft, "%s.part", name) < 0)
        s->draft = NULL;
    int fd = open(s->draft ? s->draft : name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || take_file(fd))
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

bool sink_open(struct sink *s, const char *name, bool text, bool draft, const char *process)
{
    *s = (struct sink){.name = name};
    signal(SIGCHLD, SIG_DFL); /* children have to be waited for */
    if (name[0] == '|')
        s->fd = start_reader(s, name + 1, -1, NULL);
    else if (sink_descriptor(name) >= 0)
        s->fd = fcntl(sink_descriptor(name), F_DUPFD_CLOEXEC, 3);
    else
        s->fd = open_file(s, name, draft);
    if (s->fd < 0 || !text)
        return s->fd >= 0;
    int out = s->fd;
    s->fd = start_reader(s, NULL, out, process);
    close(out);
    return s->fd >= 0;
}

char *sink_variant(const char *name, const char *word)
{
    static const char suffix[] = ".ljt";
    size_t length = strlen(name), end = strlen(suffix);
    const bool has = length > end && strcmp(name + length - end, suffix) == 0;
    char *variant;
    if (asprintf(&variant, "%.*s.%s%s", (int)(length - (has ? end : 0)), name, word, has ? suffix : "") < 0)
        return NULL;
    return variant;
}

char *sink_of_child(const char *pattern, const char *parents, int pid)
{
    char word[16];
    if (parents[0] == '|' || sink_descriptor(parents) >= 0)
        return NULL;
    /* Only a pattern with %p is different for another id. The parent's name does not show it: a child's has the id. */
    char *name = trace_name_expand(pattern, pid), *others = trace_name_expand(pattern, 0);
    const bool has_id = name && others && strcmp(name, others) != 0;
    free(others);
    if (!name || has_id)
        return name;
    snprintf(word, sizeof word, "%d", pid);
    char *variant = sink_variant(name, word);
    free(name);
    return variant;
}

bool sink_is_replaceable(const struct sink *s)
{
    struct stat st;
    return s->name[0] != '|' && sink_descriptor(s->name) < 0 && s->children == 0 && fstat(s->fd, &st) == 0 &&
           S_ISREG(st.st_mode);
}

bool sink_publish(struct sink *s, const char *process)
{
    char *name = s->draft ? strdup(s->name) : NULL;
    for (int image = 2; name && sink_is_of(name, process); image++) {
        char number[12];
        free(name);
        snprintf(number, sizeof number, "%d", image);
        name = sink_variant(s->name, number);
    }
    bool ok = !s->draft || (name && rename(s->draft, name) == 0);
    free(name);
    free(s->draft);
    s->draft = NULL;
    return ok;
}

void sink_discard(struct sink *s)
{
    if (s->draft)
        unlink(s->draft);
}

void sink_remove(struct sink *s)
{
    if (sink_is_replaceable(s))
        unlink(s->draft ? s->draft : s->name);
}

void sink_leave(struct sink *s)
{
    close(s->fd);
    free(s->draft);
}

static void note_end(struct sink *s, pid_t child, int status)
{
    for (int i = 0; i < s->children; i++)
        if (s->child[i] == child) {
            s->child[i] = 0;
            s->failed = s->failed || status != 0;
        }
}

void sink_reap(struct sink *s)
{
    int status = 0;
    for (pid_t child; (child = waitpid(-1, &status, WNOHANG)) > 0;)
        note_end(s, child, status);
}

const char *sink_close(struct sink *s)
{
    sink_leave(s);
    for (int i = s->children - 1; i >= 0; i--) {
        int status = 0;
        while (s->child[i] && waitpid(s->child[i], &status, 0) < 0 && errno == EINTR)
            ;
        note_end(s, s->child[i], status);
    }
    return s->failed ? "the process that reads the trace has failed" : NULL;
}

bool sink_is_removed(const struct sink *s)
{
    struct stat st;
    return fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0;
}

/* -- parts of limited size -- */

/* Bytes that may be added to a file after it was found to be full: the events of a slab, the unfinished chunk
 * and the index. */
#define MARGIN ((uint64_t)4 << 20)

static const char *const s_word = "earlier"; /* in the name of the part before the newest */
static const char *const s_reason = "--keep=last";

static uint64_t events_of(const struct mt_writer *w)
{
    struct mt_totals t;
    mt_writer_totals(w, &t);
    uint64_t n = t.freed;
    for (int kind = 0; kind < MT_KINDS; kind++)
        n += t.events[kind];
    return n;
}

struct keep keep_for(uint64_t max_size)
{
    return (struct keep){.part = max_size / 2 > MARGIN ? max_size / 2 - MARGIN : 1};
}

bool keep_is_due(const struct keep *k, const struct mt_writer *w)
{
    return k->part && mt_writer_bytes(w) >= k->part && mt_writer_is_whole(w);
}

static void put_fact(struct mt_writer *w, const char *key, const char *path)
{
    const char *slash = strrchr(path, '/');
    mt_writer_info(w, key, slash ? slash + 1 : path);
}

/* Begin a part with the name of the part before it and the number of events that were discarded. */
static void part_begin(struct keep *k, struct mt_writer *w, const char *before)
{
    put_fact(w, "continues", before);
    if (k->discarded)
        mt_writer_lost(w, k->discarded, mt_writer_string(w, s_reason, strlen(s_reason)));
    mt_writer_flush(w);
    k->begun = events_of(w);
    if (mt_writer_bytes(w) > k->part / 2) {
        mt_writer_limit(w, k->part + MARGIN, "--max-size");
        k->part = 0;
    }
}

const char *keep_begin_part(struct keep *k, struct sink *s, struct mt_writer **w,
                            const struct mt_writer_options *options, const char *process)
{
    struct sink next;
    struct mt_error err = {0};
    char *before = sink_variant(s->name, s_word);
    mt_writer_flush(*w);
    if (!before || !sink_publish(s, process) || rename(s->name, before) != 0 ||
        !sink_open(&next, s->name, false, false, process)) {
        const char *why = strerror(before ? errno : ENOMEM);
        free(before);
        return why;
    }
    struct mt_writer *other = mt_writer_continue(*w, next.fd, options, &err);
    if (other) {
        put_fact(*w, "continued_in", s->name);
        if (k->before)
            put_fact(*w, "continues", "a part that is not kept");
        k->discarded += k->before;
        k->before = events_of(*w) - k->begun;
        mt_writer_finish(*w, MT_ENDING_LIMIT, &err);
        malloc_trim(0); /* else the heap is in more pieces after each part, and grows */
        sink_close(s);
        *s = next;
        *w = other;
        part_begin(k, other, before);
    }
    free(before);
    return err.code == MT_E_NONE ? NULL : "the next part of the file cannot be written";
}

bool keep_summary(const struct keep *k, const struct sink *s, const struct mt_writer *w, char *text,
                  size_t room)
{
    char *before = k->before ? sink_variant(s->name, s_word) : NULL;
    if (!before)
        return false;
    snprintf(text, room,
             "--keep=last: the last %" PRIu64 " events are in %s, %" PRIu64 " before them in %s; %" PRIu64
             " before those were dropped",
             events_of(w) - k->begun, s->name, k->before, before, k->discarded);
    free(before);
    return true;
}
