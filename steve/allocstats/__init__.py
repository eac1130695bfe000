"""Allocator statistics: run replays, read their result files, rank and summarise them.

steve.plots draws them. The allocators themselves run in the program `steve-replay`.

SPDX-License-Identifier: GPL-2.0-or-later
"""
