/* load_driver.h - open a driver's shared object and check its table.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SUPERVISOR_LOAD_DRIVER_H
#define DRIVERS_SUPERVISOR_LOAD_DRIVER_H

#include "drivers/sdk/driver.h"

/* The table of the driver in `path`, or NULL with a reason in `text`. It stays open for good. */
const struct steve_driver *load_driver(const char *path, char *text, size_t text_size);

/* Is the table one that this program can use? NULL, or what is wrong with it. */
const char *load_fault(const struct steve_driver *d);

#endif
