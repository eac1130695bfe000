"""Allocator statistics: run replays, read their result files, rank and summarise them.

Drawing is in steve.plots; the allocators themselves are behind the program `steve-replay`.

SPDX-License-Identifier: GPL-2.0-or-later
"""
