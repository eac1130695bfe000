/* find_driver.h - where drivers are, and which ones should be there.
 *
 * Looked for in the folders of $STEVE_DRIVERS (separated by ':'), beside the program, and where they are
 * installed. A name with a '/' is a path; .../plot_NAME means the driver NAME, for old scripts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SUPERVISOR_FIND_DRIVER_H
#define DRIVERS_SUPERVISOR_FIND_DRIVER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { FIND_MOST = 256 };

struct found {
    char name[64];
    char path[PATH_MAX]; /* "" = a driver of ours that is not there */
};

/* The path of a driver. False: not found. */
bool find_driver(const char *name, char path[PATH_MAX]);

/* All drivers, ours first, then others in the folders by name. Returns their number. */
size_t find_all(struct found list[FIND_MOST]);

/* Why a driver of ours may be missing: the Debian package it needs; NULL: it is none of ours. */
const char *find_package(const char *name);

#endif
