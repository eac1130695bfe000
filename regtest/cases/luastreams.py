"""luastreams - decode the streams of memprof and sysprof, by their definition and with none of steve's code.

Each function returns the decoded records, and asserts that all bytes belong to them. encode() makes the same bytes again.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from pathlib import Path


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self) -> str:
        size = self.uleb()
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def head(self, letters: bytes, version: int) -> None:
        assert self.data[self.at : self.at + 7] == letters + bytes([version, 0, 0, 0])
        self.at += 7

    def symbol(self, kind: int) -> tuple:
        """Of kind 0, a function of Lua; 1, a C function; 2, a trace."""
        if kind == 0:
            return ("lua", self.uleb(), self.text(), self.uleb())
        return ("c", self.uleb(), self.text()) if kind == 1 else ("trace", self.uleb(), self.uleb(), self.uleb())

    def table(self) -> list[tuple]:
        self.head(b"ljs", 3)
        symbols = []
        while (header := self.byte()) != 0x80:
            assert header in (0, 1, 2)
            symbols.append(self.symbol(header))
        return symbols

    def finish(self) -> None:
        assert self.at == len(self.data)


PLACES = {1: 0, 2: 2, 3: 1, 4: 1}  # how many numbers say where an event was: internal, Lua, C, trace
SIZES = {1: 2, 2: 2, 3: 4}  # and what happened: allocation, free, resize


def memprof(path: Path) -> list[tuple]:
    """Symbols, and events ("event", kind, source, place, numbers)."""
    b, records = Bytes(path.read_bytes()), []
    assert b.table() == []
    b.head(b"ljm", 3)
    while (header := b.byte()) != 0x80:
        kind, source = header & 3, header >> 2
        if kind == 0:
            records.append(b.symbol(source - 2))
            continue
        place = tuple(b.uleb() for _ in range(PLACES[source]))
        records.append(("event", kind, source, place, tuple(b.uleb() for _ in range(SIZES[kind]))))
    b.finish()
    return records


def sysprof(path: Path) -> tuple[list[tuple], list[tuple]]:
    """The table, and symbols and samples ("sample", state, Lua frames, host frames)."""
    b, records = Bytes(path.read_bytes()), []
    table = b.table()
    b.head(b"ljp", 2)
    while (header := b.byte()) != 0x80:
        if header >= 10:
            records.append(b.symbol(header - 10))
            continue
        if header == 9:
            records.append(("sample", 9, [], [b.uleb(), b.uleb(), b.uleb()]))
            continue
        lua, host = [], []
        while header in (1, 2, 3) and (kind := b.byte()) != 0x80:
            lua.append((kind, b.uleb(), b.uleb()) if kind == 1 else (kind, b.uleb()))
        while address := b.uleb():
            host.append(address)
        records.append(("sample", header, lua, host))
    b.finish()
    return table, records


def number(value: int) -> bytes:
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    return bytes([*(g | 0x80 for g in groups[:-1]), groups[-1]])


def encode(records: list[tuple]) -> bytes:
    """The bytes of a stream of memprof with these records."""
    out = bytearray(b"ljs\x03\0\0\0\x80ljm\x03\0\0\0")
    for record in records:
        if record[0] == "event":
            _, kind, source, place, numbers = record
            out += bytes([source << 2 | kind]) + b"".join(map(number, (*place, *numbers)))
            continue
        out.append({"lua": 8, "c": 12, "trace": 16}[record[0]])
        for value in record[1:]:
            out += number(len(value.encode())) + value.encode() if isinstance(value, str) else number(value)
    return bytes(out + b"\x80")
