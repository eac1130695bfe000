"""A trace while its recorder writes it: profiles for viewers by HTTP, and dumps of the heap.

SPDX-License-Identifier: GPL-2.0-or-later
"""
