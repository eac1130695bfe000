"""What `steve top` shows of a trace while it is written.

SPDX-License-Identifier: GPL-2.0-or-later
"""
