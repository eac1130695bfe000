# SPDX-License-Identifier: GPL-2.0-or-later
"""The HTML report of a trace: gather (collect), draw (charts), write (page)."""
