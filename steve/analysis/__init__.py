"""What is found out of a trace: sums over blocks, filters, windows, findings, lifetimes, locks.

SPDX-License-Identifier: GPL-2.0-or-later
"""
