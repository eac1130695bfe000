"""sysprof, the sampling profiler of Tarantool's LuaJIT: read and write its files, and merge C and Lua stacks.

SPDX-License-Identifier: GPL-2.0-or-later
"""
