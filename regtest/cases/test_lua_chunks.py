"""test_lua_chunks - names of chunks: as Lua shows them, in views and exports, by both recorders.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import html
import json
from pathlib import Path

import pytest

from steve.trace._memtrace import NEW
from support import Trace, record, run, steve
from test_lua_lines import events, lua_frames, script

# keeps a table that each chunk makes, and prints what Lua itself calls the chunks
CHUNKS = """\
local texts = {
  "return {1}",
  "local t = {2}\\nreturn t",
  "return {3} -- a line that is longer than what Lua shows of a line of text",
  "return {4} -- 48 bytes in all, of 48 to be shown.",
  "\\nreturn {5}",
  "return {6} --" .. (" \\195\\164"):rep(20),
  "return (function() return {'a/b'} end)()",
}
local names = {"=named", "=a name that is marked", "@folder/some file.lua", "=" .. ("long"):rep(30)}
local kept = {}
local function make(text, name)
  local chunk = assert(loadstring(text, name))
  kept[#kept + 1] = chunk()
  print(debug.getinfo(chunk, "S").short_src)
end
for _, text in ipairs(texts) do make(text) end
for _, name in ipairs(names) do make("return {7}", name) end
"""


def recorded(recorder: str, path: Path, *argv: object) -> Trace:
    if recorder == "valgrind":
        return record(path, ["luajit", *argv], "--trace-mem=no")
    return Trace(path, run(["ljtrace", "run", f"--out={path}", "luajit", *argv])).check()


def whole(text: bytes) -> str:
    """Without the part of a character at which Lua may cut a name."""
    return text.decode(errors="ignore")


@pytest.mark.parametrize("recorder", ["valgrind", "native"])
def test_chunks_have_the_names_that_lua_shows(recorder: str, tmp_path: Path) -> None:
    program = script(tmp_path, CHUNKS)
    trace = recorded(recorder, tmp_path / "t.ljt", "-joff", program)
    truth = {whole(line) for line in trace.run.out.splitlines()}
    assert len(truth) == 11
    found = set()
    for reader, event in events(trace.path, (NEW,)):
        found |= {f.file for f in lua_frames(reader, int(event["ref"])) if f.file} if event["heap"] else set()
    assert truth <= found
    assert found - truth == {str(program)}


def test_views_and_exports_show_no_source_text(tmp_path: Path) -> None:
    """The text of the chunk is in none of them, and the file that lists all frames of all sites stays small."""
    text = "local t = {}\n" + "".join(f"t[{k}] = {{ {k}, 'value of {k}' }}\n" for k in range(500)) + "return t\n"
    (tmp_path / "chunk.txt").write_text(text)
    program = script(tmp_path, "local f = io.open(arg[1])\nkept = assert(loadstring(f:read('*a')))()\n")
    path = recorded("native", tmp_path / "t.ljt", "-joff", program, tmp_path / "chunk.txt").path
    shown = '[string "local t = {}..."]'
    for command in (
        ("sites", path, "--json"),
        ("sites", path, "--by", "line", "--json"),
        ("sites", path, "--by", "file", "--json"),
        ("lines", path, "--json"),
        ("export", "--format", "folded", path, "-o", "-"),
        ("export", "--format", "callgrind", path, "-o", "-"),
        ("export", "--format", "speedscope", path, "-o", "-"),
        ("flame", path, "-o", "-"),
        ("report", path, "-o", "-"),
    ):
        out = html.unescape(steve(*command).text)
        assert "value of" not in out, command
        assert shown in out or json.dumps(shown)[1:-1] in out, command
    assert len(steve("sites", path, "--json").text) < 2_000_000
