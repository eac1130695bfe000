"""Messages on stderr: complaints and remarks, each one line that names the command.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import sys


def complain(name: str, message: object) -> None:
    """One line on stderr."""
    prefix = f"steve {name}: " if name else "steve: "
    print(prefix + " ".join(str(message).split("\n")), file=sys.stderr)


def note(command: str, text: str, quiet: bool | None = False) -> None:
    """A remark on stderr that is no error: `steve COMMAND: TEXT`."""
    if not quiet:
        print(f"steve {command}: {text}", file=sys.stderr)
