"""Heap snapshots of a Lua state (universes): its objects, what keeps them alive, and what grew between two snapshots.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from pkgutil import extend_path

# in the build tree the compiled module is in another folder, see steve/__init__.py
__path__ = extend_path(__path__, __name__)
