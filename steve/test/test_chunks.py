"""Names of Lua chunks in files of 0.1.0, whose recorders wrote source text as the name of its chunk.

The expected names follow from LuaJIT's rules: the first line, of which 48 bytes fit, or 45 and three dots.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import pytest

from steve.trace.chunks import shown_chunk, shown_function

SHOWN = {
    "local t = {}\nt[1] = 2\n": '[string "local t = {}..."]',
    "\nreturn 1": '[string "..."]',
    "return { 5 }": '[string "return { 5 }"]',
    "return 5 ": '[string "return 5 "]',
    "f(1, 2) ": '[string "f(1, 2) "]',
    "x = " + "1" * 44: f'[string "x = {"1" * 44}"]',
    "x = " + "1" * 45: f'[string "x = {"1" * 41}..."]',
    "x = '" + "\u00e4" * 22 + "'": "[string \"x = '" + "\u00e4" * 20 + '..."]',
    "t = 1\tu = 2": '[string "t = 1..."]',
}
FILES = (
    "",
    "app.lua",
    "/home/me/a (copy)/app = 2.lua",
    "my script",
    "stdin",
    "(command line)",
    "[builtin:table]",
    '[string "local t = {}..."]',
    "folder with blanks/a=b",
    "=eval",
)


@pytest.mark.parametrize("name", SHOWN)
def test_source_text_is_shortened(name: str) -> None:
    assert shown_chunk(name) == SHOWN[name]
    assert shown_chunk(SHOWN[name]) == SHOWN[name]
    assert shown_function(f"{name}:12", name) == f"{SHOWN[name]}:12"
    assert shown_function("leaf", name) == "leaf"


@pytest.mark.parametrize("name", FILES)
def test_names_of_files_stay(name: str) -> None:
    assert shown_chunk(name) == name
    assert shown_function(f"{name}:3#2", name) == f"{name}:3#2"
