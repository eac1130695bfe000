/* plot.h - the header's old name, for sources that include "plot.h". See user_driver.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SDK_PLOT_H
#define DRIVERS_SDK_PLOT_H
#include "user_driver.h"
#endif
