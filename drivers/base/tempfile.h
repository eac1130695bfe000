/* tempfile.h - removes a temporary file when the program is interrupted.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_TEMPFILE_H
#define DRIVERS_BASE_TEMPFILE_H

/* Remove this file if SIGINT, SIGTERM or SIGHUP ends the program. NULL: remove none. One file at a time. */
void tempfile_guard(const char *path);

#endif
