/* tempfile.h - files that are written to a temporary file do not stay when the program is interrupted.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_TEMPFILE_H
#define DRIVERS_BASE_TEMPFILE_H

/* Remove this file if SIGINT, SIGTERM or SIGHUP ends the program; NULL: none any more. One at a time. */
void tempfile_guard(const char *path);

#endif
