"""sysprof: the sampling profiler of Tarantool's LuaJIT. Its files, and stacks of C and Lua from them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
