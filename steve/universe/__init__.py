"""Universes: all objects of a Lua state at one time, who holds them, and what grew between two.

SPDX-License-Identifier: GPL-2.0-or-later
"""
