/* remarks.h - what is missing in a recording, as facts in the file and as lines for the user.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_COLLECTOR_REMARKS_H
#define LJTRACE_COLLECTOR_REMARKS_H

#include "ljtrace/collector/collector.h"

/* Write a fact that is a number. */
void remarks_number(const struct collector *c, const char *key, uint64_t n);
/* Send a line that the tool shows at the end of the recording, not as a failure. */
void remarks_send(const struct collector *c, const char *text);
/* At the end: write and send what is missing. */
void remarks_write(struct collector *c);
/* Send the name of the file, if the launcher does not know it. */
void remarks_name(const struct collector *c);

#endif
