/* sink.h - where a memtrace goes: a file, standard output, a command; as it is or as classic text.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The writer sees a descriptor in any case. Text is made by a child process that reads the memtrace from a
 * pipe and writes `>>>` lines; a command is a child as well, that reads from a pipe. Nothing here knows of
 * the ring.
 */
#ifndef COLLECTOR_SINK_H
#define COLLECTOR_SINK_H

#include <stdbool.h>
#include <sys/types.h>

struct sink {
    const char *name; /* FILE, a name of a descriptor, or "|COMMAND" */
    char *draft;      /* the file's name for the time being, or NULL */
    int fd;           /* to write the memtrace to */
    pid_t child[2];   /* that read; 0 = has ended */
    int children;
    bool failed; /* one of them did not end well */
};

/* Name of this process for later images of it after exec: "PID@START"; false if it can not be told. */
bool sink_process(int pid, char *out, size_t room);
/* Is this the trace of an earlier image of that process? Then it must not be overwritten. */
bool sink_is_of(const char *name, const char *process);
/* The open descriptor that a name stands for: "-", /dev/stdout, /dev/stderr, /dev/fd/N; -1 = none. */
int sink_descriptor(const char *name);

/* A name beside that of a file: the word is put before its .ljt, or at the end. To be freed; NULL: out of memory. */
char *sink_variant(const char *name, const char *word);
/* Can files take its place, one after another? Not if it is a pipe, a device or a descriptor. */
bool sink_is_replaceable(const struct sink *s);

/* Open for writing. `text`: classic text, beginning with a line that names `process`. `draft`: a file is
 * named NAME.part until sink_publish. False with errno set on failure: EWOULDBLOCK if another process is
 * writing the file. */
bool sink_open(struct sink *s, const char *name, bool text, bool draft, const char *process);
/* Give a draft its name, or if a later image of `process` has that already the next free one; nothing
 * otherwise. */
bool sink_publish(struct sink *s, const char *process);
/* Remove a draft. */
void sink_discard(struct sink *s);
/* Let children that have ended go: those who read, and others that the process has forked. */
void sink_reap(struct sink *s);
/* Close, and wait for those who read. NULL, or what went wrong with them. */
const char *sink_close(struct sink *s);
/* Close this process's copy only. */
void sink_leave(struct sink *s);
/* Was the file removed while it was written? */
bool sink_is_removed(const struct sink *s);

#endif
