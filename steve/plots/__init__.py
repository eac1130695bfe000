"""Figures and tables of replays. Reading and ranking are in steve.allocstats; nothing here computes
results.

SPDX-License-Identifier: GPL-2.0-or-later
"""
