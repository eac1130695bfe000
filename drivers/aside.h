/* aside.h - files that are written aside do not stay when the program is interrupted.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_ASIDE_H
#define DRIVERS_ASIDE_H

/* Remove this file if SIGINT, SIGTERM or SIGHUP ends the program; NULL: none any more. One at a time. */
void aside_guard(const char *path);

#endif
