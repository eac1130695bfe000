"""Messages on stderr: errors and remarks, each one line that names the command.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import sys


def complain(name: str, message: object) -> None:
    """Report an error or a warning on one line of stderr: `steve NAME: MESSAGE`, without NAME if it is ""."""
    prefix = f"steve {name}: " if name else "steve: "
    print(prefix + " ".join(str(message).split("\n")), file=sys.stderr)


def note(command: str, text: str, quiet: bool | None = False) -> None:
    """Print a remark that is not an error on stderr, `steve COMMAND: TEXT`, unless `quiet`."""
    if not quiet:
        print(f"steve {command}: {text}", file=sys.stderr)
