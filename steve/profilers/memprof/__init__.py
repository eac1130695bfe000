"""memprof, the memory profiler of Tarantool's LuaJIT: read and write its files, and print its report.

SPDX-License-Identifier: GPL-2.0-or-later
"""
