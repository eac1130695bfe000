"""Services close to the operating system: output files, signals, the memory limit, standard streams, errors.

SPDX-License-Identifier: GPL-2.0-or-later
"""
