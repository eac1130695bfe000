"""memprof: the memory profiler of Tarantool's LuaJIT. Its files, and its report.

SPDX-License-Identifier: GPL-2.0-or-later
"""
