"""Analyses of a trace in parts, by several processes (`-j`, Dask).

SPDX-License-Identifier: GPL-2.0-or-later
"""
