"""Recordings of other programs, made into memtraces.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from pkgutil import extend_path

# in the build tree the compiled module is in another folder, see steve/__init__.py
__path__ = extend_path(__path__, __name__)
