"""chunks - the names of Lua chunks that were loaded from text.

Such a chunk has its source text as its name. The recorders write it as Lua shows it, `[string "local t = {}..."]`;
those of 0.1.0 wrote up to 4095 bytes of the text, without Lua's mark that distinguishes it from a file's name. It is
recognised here by what names of files do not have, and shortened in the same way.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import re
from functools import lru_cache

SHOWN = 48  # bytes of a line that are shown as a whole; of a longer one, or of one that others follow, three less
TEXT_CHUNK = '[string "'  # how the name of a chunk that was loaded from text begins
CONTROL = re.compile("[\0-\x1f]")
# one line of Lua, with a blank, and an operator, call, table or string, in no folder and without the ending of a file
SOURCE = re.compile(
    r"""(?!.*\.\w+$)(?=[^(\[@=].* )[^/]*[=({"']|(return|local|function|do|if|for|while|repeat|print)\b.* """
)


@lru_cache(maxsize=1 << 12)
def shown_chunk(name: str) -> str:
    """The name of a chunk, shortened if it is source text."""
    end = CONTROL.search(name)
    if name.startswith(TEXT_CHUNK) or not (end or SOURCE.match(name)):
        return name
    line = (name[: end.start()] if end else name).encode()
    if end or len(line) > SHOWN:
        return f'{TEXT_CHUNK}{line[: SHOWN - 3].decode(errors="ignore")}..."]'
    return f'{TEXT_CHUNK}{name}"]'


def shown_function(name: str, chunk: str) -> str:
    """The name of a function of a chunk. One that no caller has named is called after its chunk: `CHUNK:LINE`."""
    return shown_chunk(chunk) + name.removeprefix(chunk) if chunk and name.startswith(f"{chunk}:") else name
