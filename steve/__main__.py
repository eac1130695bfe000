"""Entry point of `python3 -m steve`; everything is in steve.cli.

An interrupt while the modules are still being loaded ends the process without Python's account of it.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_DFL)

from steve.cli import main  # noqa: E402

sys.exit(main())
