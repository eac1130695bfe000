"""steve: translate, analyse and show memtraces.

The package holds the command line (cli, commands/), the binding of the trace library (_memtrace) and the
kernels (_kernels). In the build tree the two compiled modules are not beside these files: STEVE_EXT_DIR
names their folder.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os

_ext_dir = os.environ.get("STEVE_EXT_DIR")
if _ext_dir:
    __path__.append(_ext_dir)
