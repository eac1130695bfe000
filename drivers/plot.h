/* plot.h - the header's old name, for sources that include "plot.h". See user_driver.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_PLOT_H
#define STEVE_PLOT_H
#include "user_driver.h"
#endif
