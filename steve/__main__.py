"""Entry point of `python3 -m steve`; everything is in steve.cli.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import sys

from steve.cli import main

sys.exit(main())
