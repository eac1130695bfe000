"""What people see on a terminal: tables, listings with their options, progress.

SPDX-License-Identifier: GPL-2.0-or-later
"""
