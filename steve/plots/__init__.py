"""Figures and tables of replays. steve.allocstats computes the results; the modules here only draw and format them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
