"""Exports: each module writes one file format of another viewer. steve.commands.export selects the format.

SPDX-License-Identifier: GPL-2.0-or-later
"""
