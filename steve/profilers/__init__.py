"""Read and write the files of LuaJIT's own profilers, memprof and sysprof.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from pkgutil import extend_path

# in the build tree the compiled modules are in another folder, see steve/__init__.py
__path__ = extend_path(__path__, __name__)
