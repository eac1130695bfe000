"""Write the Cython declarations of the enums in the public headers.

usage: gen-pxd.py HEADER... > cmemtrace_enums.pxi

So that Cython code names kinds and codes as C does and never repeats a number. Declares enums only; functions
and structs are declared by hand where they are used. Headers are named as they are to be included.

SPDX-License-Identifier: GPL-2.0-or-later
"""

import re
import sys

ENUM = re.compile(r"^enum (\w+) \{(.*?)\};", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def declarations(path: str) -> str:
    """The `cdef extern` block with every named enum of a header."""
    with open(path, encoding="utf-8") as file:
        text = COMMENT.sub("", file.read())
    lines = [f'cdef extern from "memtrace/{path.rsplit("/", 1)[-1]}":']
    for name, body in ENUM.findall(text):
        lines.append(f"    cdef enum {name}:")
        lines += [f"        {item.split('=')[0].strip()}" for item in body.split(",") if item.strip()]
    return "\n".join(lines) + "\n"


def main() -> int:
    if len(sys.argv) < 2:
        print("usage: gen-pxd.py HEADER...", file=sys.stderr)
        return 2
    print("# Made by memtrace/gen-pxd.py; do not edit.")
    for path in sys.argv[1:]:
        print("\n" + declarations(path), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
