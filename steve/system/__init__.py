"""What steve needs of the operating system: output files, interrupts, limits of memory, errors.

SPDX-License-Identifier: GPL-2.0-or-later
"""
