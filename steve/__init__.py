"""steve: translate, analyse and show memtraces.

cli is the command line; docs/internals/steve.md says what is in which folder, and which folder may import which. In
the build tree the compiled modules are not beside these files: STEVE_EXT_DIR names the folder that has them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os

_ext_dir = os.environ.get("STEVE_EXT_DIR")
if _ext_dir:
    __path__.append(_ext_dir)
