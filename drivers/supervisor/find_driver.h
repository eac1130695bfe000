/* find_driver.h - finds drivers, and lists them, missing ones too.
 *
 * Drivers are searched in the folders of $STEVE_DRIVERS (separated by ':'), in the folder of the program, and where
 * they are installed. A name with a '/' is a path. For old scripts, .../plot_NAME means the driver NAME.
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
    char path[PATH_MAX]; /* "" = a driver of this project that is missing */
};

/* The path of a driver. False: not found. */
bool find_driver(const char *name, char path[PATH_MAX]);

/* The path of a file in a folder of drivers. */
bool find_beside_drivers(const char *file, char path[PATH_MAX]);

/* List all drivers: those of this project, then others in the folders by name. Returns their number. */
size_t find_all(struct found list[FIND_MOST]);

/* A driver of this project. */
struct own_driver {
    const char *name;
    const char *package; /* the Debian package that it needs; "" = none */
    const char *library; /* with which LD_PRELOAD starts a program on this allocator; "" = there is none */
};

/* NULL: it is none of this project. */
const struct own_driver *find_own(const char *name);

#endif
