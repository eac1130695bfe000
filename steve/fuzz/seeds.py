"""seeds.py - small files of every kind that a reader of steve takes, for fuzzers to begin with.

    in-place python3 steve/fuzz/seeds.py FOLDER

They are made by the programs that make such files, and by the encoder of the tests. Names tell the kind by
their ending, which steve/fuzz/fuzz_commands.py goes by.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import subprocess
import sys
from pathlib import Path

SOURCE, BUILD = (Path(os.environ[name]) for name in ("LJTRACE_SRCDIR", "LJTRACE_BUILDDIR"))
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "steve" / "test"))

from allocstats_files import OLD  # noqa: E402
from ljbytes import numbers, record, stream, symtab  # noqa: E402

SCRIPT = """\
info command luajit app.lua
stack main parse@parser.lua:10 malloc
stack main f@@app.lua:3/1 draw@ui.c:5
heap 0x1234 lua
thread 1
time 100
N 4096 64 1
N 8192 3000 2 1
at draw@ui.c:5
S 4096 8
thread 2
L 4104 4
mark a
M 8208 8
S 11000 8
R 4096 12288 256 1
time 350
L 12288 4
sample 40 2 1 0
L 40960 4
flush
F 8192 2 1
F 21845
lost 3 the disk was full
snapshot end 1 100 20
object tab 40 - root
object str 40 name
link 0 1 value 1
endsnapshot
mark b
time 900
end exit
"""
CLASSIC = ">>> N 4096 64\n==1== noise\n>>> S 4096 8\n>>> L 4159 8\n>>> F 4096 0\n>>> F 1 0\n"
PROTO = 0x40001230
SYMBOLS = symtab(3, record(0, PROTO, "@test.lua", 0), record(1, 0x7F00AA00, "callback"), record(2, 7, PROTO, 3))
MEMPROF = stream(
    b"ljm",
    3,
    record(0x09, PROTO, 10, 0x1000, 100),
    record(0x0B, PROTO, 12, 0x1000, 100, 0x6000, 300),
    record(0x06, 0x6000, 300),
    record(0x11, 7, 0x5000, 16),
)
SYSPROF = stream(
    b"ljp",
    2,
    bytes([1]) + record(1, PROTO, 10) + b"\x80" + numbers(0x7F00AA00, 0),
    bytes([4]) + numbers(0x7F00AA00, 0),
    record(9, 7, PROTO, 11),
)
FOLDED = "main;parse;malloc 300\nmain;draw 12\n"


def steve(folder: Path, *arguments: str) -> None:
    subprocess.run(["steve", *arguments, "-q"], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    folder = Path(sys.argv[1])
    for chunk in (0, 3):
        subprocess.run(
            [str(BUILD / "steve/test/mktrace"), str(folder / f"trace{chunk}.ljt"), str(chunk), "1"],
            input=SCRIPT.encode(),
            check=True,
        )
    (folder / "classic.txt").write_text(CLASSIC)
    for name, form in (("text-ops", "--text"), ("binary-ops", "--binary")):
        steve(folder, "ops", "--resize", form, "trace0.ljt", "-o", name)
        steve(folder, "lockops", "--full", form, name, "-o", name.replace("ops", "lockops"))
    steve(folder, "ops", "--binary", "trace0.ljt", "-o", "copied-ops")
    steve(folder, "ops", "--binary", "--resize", "--salvage", "trace0.ljt", "-o", "shapes-ops")
    steve(folder, "ops", "--binary", "--threads", "--times", "trace0.ljt", "-o", "threads-ops")
    (folder / "a.memprof").write_bytes(SYMBOLS + MEMPROF)
    (folder / "a.sysprof").write_bytes(SYMBOLS + SYSPROF)
    (folder / "a.folded").write_text(FOLDED)
    (folder / "a-allocstats").write_text(OLD)
    return 0


if __name__ == "__main__":
    sys.exit(main())
