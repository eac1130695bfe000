"""Results in the formats of other viewers. Each module writes one format; steve.commands.export chooses.

SPDX-License-Identifier: GPL-2.0-or-later
"""
