/* sink.h - the output: a file, standard output or a command, as a memtrace or as classic text.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The writer is given a descriptor in all cases. Text is made by a child process that reads the memtrace from
 * a pipe and writes `>>>` lines. A command is a child process too, which reads the memtrace or the text from
 * a pipe. This file knows nothing of the ring.
 */
#ifndef COLLECTOR_SINK_H
#define COLLECTOR_SINK_H

#include "memtrace/memtrace.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* An output. */
struct sink {
    const char *name; /* a file, the name of a descriptor, or "|COMMAND" */
    char *draft;      /* the file's name until it is published, or NULL */
    int fd;           /* the writer writes the memtrace to it */
    pid_t child[2];   /* processes that read the output; 0 = has ended */
    int children;
    bool failed; /* one of the children has failed */
};

/* Write an identity of the process that stays the same across exec: "PID@START". Returns false if it cannot
 * be found. */
bool sink_process(int pid, char *out, size_t room);
/* Is the file the trace of an earlier image of that process? Then it must not be overwritten. */
bool sink_is_of(const char *name, const char *process);
/* The open descriptor that a name means: "-", /dev/stdout, /dev/stderr, /dev/fd/N; -1 = none. */
int sink_descriptor(const char *name);

/* A variant of a file's name: the word is inserted before .ljt, or appended. The caller frees it; NULL = out
 * of memory. */
char *sink_variant(const char *name, const char *word);
/* The name for a forked child of the process whose trace is `parents`: the id is inserted unless the pattern of --out has
 * it. NULL = the child has no trace: the parent's is a stream, not a file. The caller frees it. */
char *sink_of_child(const char *pattern, const char *parents, int pid);
/* Can other files take the place of this one, one after another? Not those of a pipe, a device or a
 * descriptor. */
bool sink_is_replaceable(const struct sink *s);

/* Open for writing. `text`: write classic text, whose first line names `process`. `draft`: a file is named
 * NAME.part until sink_publish. Returns false on failure with errno set; EWOULDBLOCK means that another
 * process is writing the file, EEXIST that there is a file of that name which is no trace. */
bool sink_open(struct sink *s, const char *name, bool text, bool draft, const char *process);
/* Give a draft its final name. If that name holds the trace of a later image of `process`, it gets the next
 * free variant of the name. Does nothing if the output is not a draft. */
bool sink_publish(struct sink *s, const char *process);
/* Remove a draft. */
void sink_discard(struct sink *s);
/* Remove the output if it is a file. */
void sink_remove(struct sink *s);
/* Reap children that have ended: those that read the output, and others that this process has forked. */
void sink_reap(struct sink *s);
/* Close the output and wait for the processes that read it. Returns NULL, or what went wrong with them. */
const char *sink_close(struct sink *s);
/* Close this process's descriptor, without waiting for the children. */
void sink_leave(struct sink *s);
/* Was the file removed while it was being written? */
bool sink_is_removed(const struct sink *s);

/* -- parts of limited size -- */

/* The trace is cut into parts of half the size limit. Each part is a trace of its own, which begins with all
 * definitions and all live blocks. The newest part has the file's name. The part before it is stored beside
 * it under another name (sink_variant) and replaces the part before that. So the files always hold the last
 * events up to at least half the limit, and never more than the limit. */

/* The parts of a recording. */
struct keep {
    uint64_t part;      /* a part ends when its file has so many bytes; 0 = no parts */
    uint64_t begun;     /* number of events before the newest part */
    uint64_t before;    /* number of events in the part before it */
    uint64_t discarded; /* number of events in the parts that were replaced */
};

/* Return the state for files of at most `max_size` bytes in all. */
struct keep keep_for(uint64_t max_size);
/* Return true if another part should begin, and can begin at this point of the trace. */
bool keep_is_due(const struct keep *k, const struct mt_writer *w);
/* End the current part and begin another: *s and *w are replaced. Returns NULL, or the reason why this is not
 * possible; then *s and *w are unchanged. If the definitions and live blocks with which a part begins leave
 * too little room, this part becomes the last one and its size is limited. */
const char *keep_begin_part(struct keep *k, struct sink *s, struct mt_writer **w,
                            const struct mt_writer_options *options, const char *process);
/* Write a line about the parts for the user. Returns false if there is only one part. */
bool keep_summary(const struct keep *k, const struct sink *s, const struct mt_writer *w, char *text,
                  size_t room);

#endif
