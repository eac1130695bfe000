"""Output for the terminal: tables, listings and their options, the progress bar, numbers with units.

SPDX-License-Identifier: GPL-2.0-or-later
"""
