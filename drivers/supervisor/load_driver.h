/* load_driver.h - open a driver's shared object and check its table.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SUPERVISOR_LOAD_DRIVER_H
#define DRIVERS_SUPERVISOR_LOAD_DRIVER_H

#include "drivers/sdk/driver.h"

/* Open the driver in `path` and return its table, or NULL with a reason in `text`. It is never closed. */
const struct steve_driver *load_driver(const char *path, char *text, size_t text_size);

/* Check that this program can use the table. Returns NULL, or a description of the error. */
const char *load_fault(const struct steve_driver *d);

#endif
