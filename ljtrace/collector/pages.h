/* pages.h - looks at the pages of the program (--pages), and writes what it sees to the memtrace.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The kernel says it in maps, smaps and pagemap of /proc/PID, which a process of the same user may read. The program is not
 * stopped for that. So what it touches meanwhile may be in one of both and not in the other; how much was resident before
 * and after is written as well.
 */
#ifndef LJTRACE_COLLECTOR_PAGES_H
#define LJTRACE_COLLECTOR_PAGES_H

#include "ljtrace/collector/regions.h"
#include "ljtrace/protocol/ring.h"
#include "memtrace/memtrace.h"

#include <stddef.h>
#include <stdint.h>

struct pages;

/* Look at this process. every: nanoseconds between looks besides those for other reasons; 0 = none. */
struct pages *pages_new(int pid, uint64_t every);
/* Milliseconds until pages_due may say something else than NULL; 0 = now. */
int pages_wait(const struct pages *p);
/* Is it time to look, and why? "first"; "growth", if a tenth more is resident than at any look before; "steady",
 * half a second after one of these; or "time", if the interval that was asked for has passed, or a second or more that is a
 * quarter of the time until the last look: so their number grows with the logarithm of the time. NULL = no. */
const char *pages_due(struct pages *p);
/* Look, and write what is seen. regions: the program's own; ring: its header has the memory of the recorder in the program.
 * time: of the trace; name: of the mark, or "". */
void pages_take(struct pages *p, struct mt_writer *w, const struct regions *regions,
                const struct ring_header *ring, uint64_t time, const char *reason, const char *name);
/* The same in three steps: read what must not change meanwhile, for which the program waits; read the rest, while it goes on;
 * and write what was seen, when the regions are known. */
void pages_begin(struct pages *p);
void pages_read_rest(struct pages *p);
void pages_write(struct pages *p, struct mt_writer *w, const struct regions *regions,
                 const struct ring_header *ring, uint64_t time, const char *reason, const char *name);
/* What could not be read at some look, and why; NULL = nothing. */
const char *pages_problem(const struct pages *p);
void pages_free(struct pages *p);

#endif
