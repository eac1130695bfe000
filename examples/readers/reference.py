#!/usr/bin/python3
"""reference.py - a reader of memtraces that was written from docs/memtrace-format.md alone, without code of libmemtrace.

    python3 reference.py [--salvage] app.ljt

It prints the same lines as `steve dump`: every definition, every event and the totals, in the order of the file. It is a
second implementation of the format, with which the tests compare the first one, and shows how each part of a file is
decoded. It is plain and slow, about a second for 80000 events; for other purposes use the package memtrace
(busiest.py). The standard library has neither zstd nor XXH3, so it calls libzstd.so.1 and libxxhash.so.0 by ctypes. It
reads no classic text.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

HEADER = b"\x89LJT\r\n\x1a\n"
CHUNK = b"\xabljtCHK\n"
TRAILER = b"\xabljtIDX\n"
ZSTD = b"\x28\xb5\x2f\xfd"
VERSIONS = (1, 2)
DEFS, EVENTS, END, INDEX, CHECKPOINT, SNAPSHOT, SURVIVORS, CONTAINERS = range(1, 9)
HEAD = struct.Struct("<8sB3sIIIQQQQQQ")
RAW_LIMIT, STORED_LIMIT, EVENTS_LIMIT = 64 << 20, 65 << 20, 1 << 22
U64 = (1 << 64) - 1
FORGOTTEN = "events of blocks that are not known"

ENUMS = {
    "KIND": ("new", "free", "resize", "load", "store", "modify"),
    "HOW": ("malloc", "calloc", "realloc", "memalign", "new", "new[]", "lua", "custom"),
    "HEAPKIND": ("malloc", "lua", "mmap", "custom"),
    "ENDING": ("unknown", "exit", "killed", "exec", "limit", "stopped", "detached"),
    "FRAMEKIND": ("host", "lua", "fast", "c", "lua-inlined", "vm", "inlined", "cut"),
    "TYPE": "unknown str upval thread proto func trace cdata tab udata array hash stack strtab buffer jit global"
    " other".split(),
    "VM": ("INTERP", "C", "GC", "EXIT", "RECORD", "OPT", "ASM", "TRACE", "FAST"),
    "REACH": ("reachable", "possible", "indirect", "lost"),
    "REASON": ("invalid", "inside", "double", "heap", "mismatch"),
    "LINKKIND": ("other", "metatable", "env", "proto", "upvalue", "constant", "array", "key", "value", "stack"),
}
# The records of each kind of chunk: code, name, fields with their codings
NEW_FIELDS = "time:T slot:U addr:A size:U heap:U how:HOW stack:STACK"
RECORDS: dict[int, dict[int, tuple[str, str]]] = {
    DEFS: {
        1: ("base", "strings:U frames:U stacks:U sites:U heaps:U infos:U"),
        2: ("string", "text:TEXT"),
        3: ("frame", "ip:IP function:STRING file:STRING object:STRING line:U"),
        4: ("stack", "parent:STACK frame:FRAME"),
        5: ("site", "ip:IP frame:FRAME size:U kind:KIND"),
        6: ("heap", "id:X kind:HEAPKIND"),
        7: ("info", "key:STRING value:STRING"),
        8: (
            "luaframe",
            "ip:IP function:STRING file:STRING object:STRING line:U defined:U kind:FRAMEKIND approximate:U trace:U",
        ),
        9: ("proto", "handle:U heap:U function:STRING file:STRING defined:U offset:U lines:TEXT"),
        10: ("trace", "heap:U number:U addr:A size:U time:U frame:FRAME"),
        11: ("segment", "segment:U accesses:U words:U instructions:U"),
        12: ("access", "site:Z word:U distance:Z"),
        13: ("nth", "nth:U"),
        14: ("module", "object:STRING build_id:BYTES start:A size:U bias:A time:U"),
        15: ("unmapped", "start:A time:U"),
        33: (
            "pages",
            "time:U reason:STRING name:STRING page:U before:U after:U highest:U threads:U reserved:U mappings:U regions:U",
        ),
        34: (
            "mapping",
            "time:U start:A size:U flags:U name:STRING rss:U pss:U swap:U huge:U runs:BYTES",
        ),
        35: ("region", "time:U start:A size:U stack:STACK"),
    },
    EVENTS: {
        16: ("new", NEW_FIELDS),
        17: ("free", "time:T slot:U implied:U stack:STACK"),
        18: ("resize", "time:T slot:U moved:Z size:U stack:STACK"),
        19: ("thread", "thread:U"),
        20: ("mark", "time:T string:STRING"),
        21: ("badfree", "time:T addr:A heap:U stack:STACK reason:REASON block:U offset:U"),
        22: ("lost", "time:T events:U reason:STRING"),
        23: ("stop", ""),
        24: ("touch", "time:T kind:KIND slot:U offset:U size:U"),
        25: ("freed", "time:T site:SITE kind:KIND addr:A size:U handle:U offset:U heap:U"),
        26: ("inherit", NEW_FIELDS),
        27: ("type", "slot:U type:TYPE"),
        28: ("vm", "time:T heap:U vm:VM trace:U"),
        29: ("sample", "time:T heap:U vm:VM stack:STACK weight:U"),
        30: ("call", "stack:STACK"),
        31: ("beside", "time:T site:SITE kind:KIND addr:A size:U slot:U"),
        36: ("reach", "slot:U reach:REACH"),
        37: ("held", NEW_FIELDS),
    },
    CHECKPOINT: {
        40: ("checkpoint", "blocks:U before:U"),
        41: ("block", "slot:U handle:U addr:A size:U heap:U"),
    },
    SNAPSHOT: {
        50: ("snapshot", "name:STRING heap:U time:U total:U internal:U objects:U links:U"),
        51: ("object", "addr:A size:U type:TYPE flags:U name:STRING"),
        52: ("link", "from:Z to:Z kind:LINKKIND weak:U name:U"),
        53: ("snapend", "objects:U links:U"),
    },
    END: {
        32: (
            "end",
            "ending:ENDING new:U free:U resize:U load:U store:U modify:U mark:U badfree:U lost:U type:U state:U"
            " sample:U call:U reach:U instructions:U nanoseconds:U foreign:U dropped:U freed:U",
        ),
    },
    INDEX: {48: ("chunk", "type:U offset:U events:U first_event:U first_handle:U")},
}
FIELDS = {
    code: (name, [tuple(pair.split(":")) for pair in fields.split()])
    for records in RECORDS.values()
    for code, (name, fields) in records.items()
}
# the table of definitions to which an id refers
TABLES = {"STRING": "string", "FRAME": "frame", "STACK": "stack", "SITE": "site"}
COUNTED = ("string", "frame", "stack", "site", "heap", "info")  # in the order of BASE


class Damage(Exception):
    """The file is not as the format says."""


class Truncated(Damage):
    """The file ends too early."""


def check(condition: object, what: str) -> None:
    if not condition:
        raise Damage(what)


# -- the two libraries ------------------------------------------------------------------------------------------------


class Buffer(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer"""

    _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t)]


zstd, xxhash = ctypes.CDLL("libzstd.so.1"), ctypes.CDLL("libxxhash.so.0")
xxhash.XXH3_64bits.restype = ctypes.c_uint64
xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
zstd.ZSTD_createDStream.restype = ctypes.c_void_p
zstd.ZSTD_freeDStream.argtypes = [ctypes.c_void_p]
zstd.ZSTD_decompressStream.argtypes = [ctypes.c_void_p, ctypes.POINTER(Buffer), ctypes.POINTER(Buffer)]
for name in ("ZSTD_decompressStream", "ZSTD_findFrameCompressedSize", "ZSTD_decompress"):
    getattr(zstd, name).restype = ctypes.c_size_t
zstd.ZSTD_findFrameCompressedSize.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]


def hashed(data: bytes) -> int:
    return int(xxhash.XXH3_64bits(data, len(data)))


def decompressed(frame: bytes, raw: int) -> bytes:
    """What one zstd frame holds, of a size that is known."""
    if not frame:
        check(raw == 0, "a stream without a frame")
        return b""
    check(zstd.ZSTD_findFrameCompressedSize(frame, len(frame)) == len(frame), "a stream is not one frame")
    out = ctypes.create_string_buffer(raw)
    check(zstd.ZSTD_decompress(out, raw, frame, len(frame)) == raw, "a frame of another size")
    return out.raw


class CompressedFile:
    """A file of zstd frames, decompressed while it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._stream = file, zstd.ZSTD_createDStream()
        self._text = b""

    def read(self, size: int) -> bytes:
        while len(self._text) < size and (block := self._file.read(1 << 17)):
            source = Buffer(ctypes.cast(block, ctypes.c_void_p), len(block), 0)
            full = True  # the library may have more than the buffer had room for
            while source.pos < source.size or full:
                room = ctypes.create_string_buffer(1 << 18)
                target = Buffer(ctypes.cast(room, ctypes.c_void_p), len(room), 0)
                result = zstd.ZSTD_decompressStream(self._stream, ctypes.byref(target), ctypes.byref(source))
                check(not zstd.ZSTD_isError(ctypes.c_size_t(result)), "damaged zstd")
                self._text += room.raw[: target.pos]
                full = target.pos == target.size
        text, self._text = self._text[:size], self._text[size:]
        return text


# -- records ----------------------------------------------------------------------------------------------------------


class Stream:
    """The bytes of a stream, and the last values of the fields that are stored as differences."""

    def __init__(self, data: bytes, time: int = 0) -> None:
        self.data, self.at = data, 0
        self.addr, self.ip, self.time = 0, 0, time

    @property
    def used_up(self) -> bool:
        return self.at == len(self.data)

    def byte(self) -> int:
        check(not self.used_up, "a stream ends early")
        self.at += 1
        return self.data[self.at - 1]

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            check(shift < 63 or byte <= 1, "a number over 64 bits")
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def zigzag(self) -> int:
        value = self.uvarint()
        return value >> 1 ^ -(value & 1)

    def bytes(self) -> bytes:
        size = self.uvarint()
        check(self.at + size <= len(self.data), "a text ends early")
        self.at += size
        return self.data[self.at - size : self.at]

    def field(self, coding: str) -> Any:
        if coding in ("TEXT", "BYTES"):
            return self.bytes()
        if coding == "Z":
            return self.zigzag()
        if coding == "A":
            self.addr = (self.addr + self.zigzag()) & U64
            return self.addr
        if coding == "IP":
            self.ip = (self.ip + self.zigzag()) & U64
            return self.ip
        if coding == "T":
            self.time = (self.time + self.uvarint()) & U64
            return self.time
        value = self.uvarint()
        check(coding not in ENUMS or value < len(ENUMS[coding]), f"{coding} {value}")
        return value

    def record(self, of: int) -> tuple[str, dict[str, Any]]:
        """The next record of a chunk of a type."""
        code = self.byte()
        check(code in RECORDS[of], f"an unknown record {code}")
        name, fields = FIELDS[code]
        return name, {key: self.field(coding) for key, coding in fields}


@dataclass
class Chunk:
    type: int
    raw: int
    stored: int
    events: int
    first_event: int
    first_handle: int
    instructions: int
    offset: int
    payload_hash: int
    payload: bytes = b""

    def streams(self) -> list[bytes]:
        """The payload, decompressed."""
        check(hashed(self.payload) == self.payload_hash, "a damaged payload")
        count = 7 if self.type == EVENTS else 1
        check(len(self.payload) >= 8 * count, "a payload without its table")
        sizes = struct.unpack_from(f"<{2 * count}I", self.payload)
        raws, stored = sizes[::2], sizes[1::2]
        check(sum(raws) == self.raw and sum(stored) + 8 * count == self.stored, "a table that does not add up")
        found, at = [], 8 * count
        for raw, size in zip(raws, stored):
            found.append(decompressed(self.payload[at : at + size], raw))
            at += size
        return found


def chunk_of(head: bytes, offset: int) -> Chunk:
    """The header of a chunk, checked."""
    magic, kind, zero, raw, stored, events, first_event, first_handle, instructions, _, of_payload, own = HEAD.unpack(
        head
    )
    check(magic == CHUNK and own == hashed(head[:64]), "a damaged header")
    check(DEFS <= kind <= CONTAINERS and zero == bytes(3), f"an unknown chunk type {kind}")
    check(raw <= RAW_LIMIT and stored <= STORED_LIMIT and events <= EVENTS_LIMIT, "a chunk over the limits")
    check(events == 0 or kind == EVENTS, "events outside of EVENTS")
    return Chunk(kind, raw, stored, events, first_event, first_handle, instructions, offset, of_payload)


# -- definitions ------------------------------------------------------------------------------------------------------


@dataclass
class Segment:
    """A run of accesses: for each its site, its word, and its distance from the lowest access of that word."""

    words: int
    accesses: list[tuple[int, int, int]]


@dataclass
class Definitions:
    tables: dict[str, list[Any]] = field(
        default_factory=lambda: {
            "string": [b""],
            "frame": [None],
            "stack": [None],
            "site": [(0, "load")],
            "heap": [0],
            "info": [],
            "proto": [],
            "trace": [],
            "module": [],
            "unmapped": [],
            "pages": [],
            "mapping": [],
            "region": [],
        }
    )
    segments: dict[int, Segment] = field(default_factory=dict)

    def refer(self, code_fields: list[Any], values: dict[str, Any]) -> None:
        """Check the ids in a record."""
        for key, coding in code_fields:
            if coding in TABLES:
                check(values[key] < len(self.tables[TABLES[coding]]), f"{coding} {values[key]} is not defined")
        check(values.get("heap", 0) < len(self.tables["heap"]), "a heap is not defined")

    def take(self, stream: Stream, salvage: bool) -> Iterator[str]:
        """All definitions of a chunk; yields their lines."""
        name, base = stream.record(DEFS)
        check(name == "base", "a DEFS chunk without BASE")
        for table, count in zip(COUNTED, base.values()):
            have = self.tables[table]
            if salvage and len(have) < count:
                have += [b"" if table == "string" else None] * (count - len(have))
            check(len(have) == count, f"a BASE that does not fit: {table}")
        nth = False
        while not stream.used_up:
            code = stream.data[stream.at]
            name, values = stream.record(DEFS)
            check(name not in ("base", "access"), f"{name} out of place")
            check(not nth or name in ("luaframe", "proto"), "an NTH of nothing")
            nth = name == "nth"
            self.refer(FIELDS[code][1], values)
            if name == "segment":
                yield from self._segment(stream, values)
                continue
            yield line(name, self._define(name, values), FIELDS[code][1], values)
        check(not nth, "an NTH at the end")

    def _define(self, name: str, values: dict[str, Any]) -> int | None:
        """The id of what a record defines."""
        if name == "nth":
            return None
        if name == "string":
            check(b"\0" not in values["text"] and len(values["text"]) < 65536, "a string")
        if name == "site":
            check(values["kind"] in (3, 4, 5), "the kind of a site")
        if name in ("pages", "mapping", "region"):
            self._check_pages(name, values)
        table = self.tables["frame" if name == "luaframe" else name]
        table.append((values["size"], ENUMS["KIND"][values["kind"]]) if name == "site" else values.get("text", values))
        return None if name in ("pages", "mapping", "region") else len(table) - 1

    def _check_pages(self, name: str, values: dict[str, Any]) -> None:
        page = values["page"] if name == "pages" else self._page(values["time"])
        if name == "pages":
            check(512 <= page < 1 << 32 and page & (page - 1) == 0, "the size of a page")
            check(all(values[key] < 1 << 32 for key in ("threads", "mappings", "regions")), "a number of PAGES")
        if name == "region":
            check(values["start"] + values["size"] <= U64, "a region beyond the address space")
        if name == "mapping":
            check(values["flags"] < 1 << 32, "the flags of a mapping")
        if name == "mapping" and page:
            start, size, runs = values["start"], values["size"], Stream(values["runs"])
            check(size and start + size <= U64 and start % page == size % page == 0, "a mapping")
            pages, known = 0, not runs.used_up
            check(len(runs.data) <= 65535, "the runs of a mapping")
            while not runs.used_up:
                run = runs.uvarint() >> 4
                check(run, "an empty run")
                pages += run
            check(not known or pages == size // page, "runs that are not all pages")

    def _page(self, time: int) -> int | None:
        """The size of a page of the last PAGES, if it is of that time."""
        last = self.tables["pages"][-1] if self.tables["pages"] else None
        return last["page"] if last and last["time"] == time else None

    def _segment(self, stream: Stream, values: dict[str, Any]) -> Iterator[str]:
        yield line("segment", None, FIELDS[11][1], values)
        check(1 <= values["accesses"] <= 64 and 1 <= values["words"] <= 21, "a segment")
        accesses, site = [], 0
        for _ in range(values["accesses"]):
            name, access = stream.record(DEFS)
            check(name == "access" and access["word"] < values["words"], "an access of a segment")
            site += access["site"]
            check(0 <= site < len(self.tables["site"]), "the site of an access")
            accesses.append((site, access["word"], access["distance"]))
            yield line("access", None, FIELDS[12][1], {**access, "site": site})
        for word in range(values["words"]):
            of_word = [distance for _, at, distance in accesses if at == word]
            check(of_word and max(of_word) - min(of_word) <= 65535, "the distances of a word")
            lowest = min(of_word)
            accesses = [(s, w, distance - lowest if w == word else distance) for s, w, distance in accesses]
        self.segments[values["segment"]] = Segment(values["words"], accesses)


# -- events -----------------------------------------------------------------------------------------------------------


@dataclass
class Block:
    """A slot, and the block that it has or had."""

    handle: int
    addr: int
    size: int
    heap: int
    ordinal: int
    """News and Resizes before its own last one."""
    live: bool = True


@dataclass
class Word:
    addr: int = 0
    stride: int = 0
    delta: int = 0
    back: int = 0
    slot: int = 0
    foreign: bool = False
    own: bool = False
    age: int = 1


@dataclass
class Run:
    """What the predictor knows of a segment."""

    segment: Segment
    words: list[Word]
    next: tuple[int | None, int | None] = (None, None)


class Predictor:
    """Decodes the segments of a chunk."""

    def __init__(self, defs: Definitions, slots: list[Block], streams: list[Stream]) -> None:
        self.defs, self.slots = defs, slots
        _, self.segments, self.slot_stream, self.offsets, _, self.codes, self.ages = streams
        self.recent = [(0, 0)] * 16  # address and slot, the latest first
        self.runs: dict[int, Run] = {}
        self.previous: Run | None = None

    def place(self, addr: int, slot: int) -> None:
        self.recent = [(addr, slot), *self.recent[:15]]

    def _segment(self, missed: bool) -> Run:
        """The segment that runs next. Its key is 2 * segment, or 2 * site + 1 for a site by itself."""
        known = self.previous.next if self.previous else (None, None)
        if missed:
            number = self.segments.uvarint()
            key = known[1] if number == 0 else number - 1
            if self.previous:
                self.previous.next = key, known[0]
        else:
            key = known[0]
        if key is None:
            raise Damage("a segment guessed before it was seen")
        if key not in self.runs:
            if key & 1:
                check(key >> 1 < len(self.defs.tables["site"]), "a site that is not defined")
                segment = Segment(1, [(key >> 1, 0, 0)])
            else:
                check(key >> 1 in self.defs.segments, "a segment that is not defined")
                segment = self.defs.segments[key >> 1]
            self.runs[key] = Run(segment, [Word() for _ in range(segment.words)])
        self.previous = self.runs[key]
        return self.previous

    def _guess(self, word: Word, own: bool) -> tuple[int, int]:
        if own:
            return (word.addr + word.stride) & U64, word.slot
        addr, slot = self.recent[word.age - 1]
        return (addr + word.back) & U64, slot

    def _slot(self, slot: int) -> Block:
        check(slot < len(self.slots), "a slot never used")
        return self.slots[slot]

    def _word(self, word: Word, code: int) -> tuple[int, int] | None:
        """The address and slot of a word, None if it is foreign."""
        check(code <= 6 and (code != 6 or word.foreign), f"code {code} of a word")
        if code == 5 or (code == 0 and word.foreign):
            word.foreign = True
            return None
        word.foreign = False
        if code == 1:
            word.own = not word.own
        if code == 2:
            word.own, word.age = False, self.ages.uvarint()
            check(1 <= word.age <= 16, "an age")
        addr, slot = self._guess(word, word.own)
        if code in (3, 4):
            if code == 4:
                slot = self.slot_stream.uvarint()
            addr = (self._slot(slot).addr + self.offsets.uvarint()) & U64
            for age, (other, its_slot) in enumerate(self.recent, 1):
                if its_slot == slot:
                    word.age, word.back = age, (addr - other) & U64
                    break
        delta = (addr - word.addr) & U64
        if delta == word.delta:
            word.stride = delta
        word.delta, word.addr, word.slot = delta, addr, slot
        self.place(addr, slot)
        return addr, slot

    def accesses(self, misses: int) -> Iterator[tuple[int, int, Block]]:
        """The next segment: site, address and block of each access that is an event."""
        run = self._segment(bool(misses & 1))
        codes = self.codes.uvarint() if misses & 2 else 0
        check(codes >> 3 * len(run.words) == 0, "codes after the last word's")
        words = [self._word(word, codes >> 3 * i & 7) for i, word in enumerate(run.words)]
        for site, word, distance in run.segment.accesses:
            if at := words[word]:
                addr, block = (at[0] + distance) & U64, self._slot(at[1])
                if block.live and block.addr <= addr < block.addr + block.size:
                    yield site, addr, block


# -- lines ------------------------------------------------------------------------------------------------------------


def shown(coding: str, value: Any) -> str:
    """A value as in `steve dump`."""
    if coding == "TEXT":
        plain = (chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\x{c:02x}" for c in value)
        return f'"{"".join(plain)}"'
    if coding == "BYTES":
        return str(value.hex())
    if coding in ENUMS:
        return ENUMS[coding][value]
    return f"{value & U64:#x}" if coding in ("A", "IP", "X", "Z") else str(value)


def line(name: str, number: int | None, fields: list[Any], values: dict[str, Any]) -> str:
    """A record of the file as text."""
    start = [name] if number is None else [name, f"id={number}"]
    return " ".join(start + [f"{key}={shown(coding, values[key])}" for key, coding in fields])


def event(kind: str, **fields: object) -> str:
    """An event as text; what is None is not shown."""
    return " ".join([kind, *(f"{key}={value}" for key, value in fields.items() if value is not None)])


# -- the file ---------------------------------------------------------------------------------------------------------


class Reader:
    """Reads a memtrace; `lines` yields its definitions and events."""

    def __init__(self, file: BinaryIO, complain: Callable[[str], None] | None = None) -> None:
        """complain: damage is passed over, and reported by this function (`--salvage`)."""
        begin = file.read(4)
        self._begin = begin
        self._file: BinaryIO | CompressedFile = file
        if begin == ZSTD:
            file.seek(0)
            self._file, self._begin = CompressedFile(file), b""
        self._complain = complain
        self._offset = 0
        self._partial = False  # the file has a part of what could not be read
        self.defs = Definitions()
        self.slots: list[Block] = []
        self.totals: Counter[str] = Counter()
        self._events = self._handles = self._ordinals = 0
        self._chunks: list[Chunk] = []
        self._before: Chunk | None = None  # the chunk before
        self._listed: list[tuple[int, ...]] = []  # blocks of the CHECKPOINT chunks so far
        self._survivors: list[int] = []
        self._parts: tuple[int, int] | None = None  # objects and links of a snapshot that has not ended
        self.damaged = False
        self._adrift = False  # which blocks live is not known
        self._lost = 0  # events that are missing
        self._link = (0, 0)  # the last link of the snapshot
        self._linked = 0  # the last object of the snapshot that a link has
        self._more_survivors = False
        self._containers: list[int] = []
        self._more_containers = False
        self._end: dict[str, Any] | None = None

    def _read(self, size: int, what: str) -> bytes:
        data = self._begin[:size]
        self._begin = self._begin[size:]
        while len(data) < size and (more := self._file.read(size - len(data))):
            data += more
        if len(data) < size:
            self._partial = bool(data)
            raise Truncated(f"the file ends in {what}" if data else "the file ends without END")
        self._offset += size
        return data

    def lines(self) -> Iterator[str]:
        check(self._read(8, "the header") == HEADER, "no memtrace")
        version, inverted = struct.unpack("<II", self._read(8, "the header"))
        check(version in VERSIONS and inverted == version ^ 0xFFFFFFFF, f"version {version}")
        while True:
            try:
                head = self._read(HEAD.size, "the header of a chunk")
            except Truncated:
                yield from self._report_lost(0)
                if self._end is not None and not self._partial:
                    return
                raise
            try:
                chunk = chunk_of(head, self._offset - HEAD.size)
            except Damage as damage:
                self._pass_over(damage, self._offset - HEAD.size)
                self._search(head)
                continue
            chunk.payload = self._read(chunk.stored, "a chunk")
            yield from self._salvaged(chunk) if self._complain else self._chunk(chunk)
            if chunk.type == INDEX:
                return

    # --salvage

    def _pass_over(self, damage: Damage, offset: int) -> None:
        if not self._complain:
            raise damage
        self._complain(f"at offset {offset}: {damage}; passed over")
        self.damaged = True

    def _search(self, data: bytes) -> None:
        """Find the next chunk after a header that is damaged."""
        self._offset -= len(data) - 1
        data = data[1:]
        while (at := data.find(CHUNK)) < 0:
            keep = data[-7:]
            self._offset += len(data) - len(keep)
            more = self._read(1, "a damaged chunk")
            self._offset -= 1
            data = keep + more + self._file.read(1 << 16)
        self._offset += at
        self._begin = data[at:]

    def _report_lost(self, time: int) -> Iterator[str]:
        if self._lost:
            yield event("lost", events=self._lost, string=0, thread=1, time=time)
        self._lost = 0

    def _salvaged(self, chunk: Chunk) -> Iterator[str]:
        """A chunk of a file that may be damaged. When events are missing, nothing is known of the blocks until the next
        checkpoint, so this reader passes over all events until then (libmemtrace passes only over those that it cannot
        decode)."""
        missing = chunk.first_event - self._events
        if self.damaged and (missing or chunk.first_handle != self._handles):
            self._lost += missing
            self._events, self._handles, self._adrift = chunk.first_event, chunk.first_handle, True
        if self._adrift and chunk.type == EVENTS:
            self._lost += chunk.events
            self._events += chunk.events
            return
        events = self._events
        try:
            lines = list(self._chunk(chunk))
        except Damage as damage:
            self._pass_over(damage, chunk.offset)
            self._events, self._listed = events, []
            self._adrift |= chunk.type == EVENTS
            return
        if not self._adrift:
            yield from self._report_lost(chunk.instructions)
        yield from lines

    def _chunk(self, chunk: Chunk) -> Iterator[str]:
        streams = chunk.streams()
        check(self._end is None or chunk.type == INDEX, "a chunk after END")
        check(chunk.first_event == self._events and chunk.first_handle == self._handles, "a chunk out of order")
        check(not self._more_containers or chunk.type == CONTAINERS, "CONTAINERS without the rest")
        check(not self._containers or chunk.type in (CONTAINERS, SURVIVORS, END, INDEX), "a chunk after CONTAINERS")
        check(not self._more_survivors or chunk.type == SURVIVORS, "SURVIVORS without the rest")
        check(not self._survivors or chunk.type in (SURVIVORS, END, INDEX), "a chunk after SURVIVORS")
        check(not self._listed or chunk.type == CHECKPOINT, "a part of a checkpoint is missing")
        if self._parts and chunk.type not in (SNAPSHOT, DEFS):
            self._parts = None  # it was cut off
        stream = Stream(streams[0])
        if chunk.type == DEFS:
            yield from self.defs.take(stream, self._complain is not None)
        elif chunk.type == EVENTS:
            yield from self._take_events(chunk, streams)
        elif chunk.type == CHECKPOINT:
            self._checkpoint(stream)
        elif chunk.type == SURVIVORS:
            self._survivor_list(stream)
        elif chunk.type == CONTAINERS:
            yield from self._container_list(stream)
        elif chunk.type == SNAPSHOT:
            yield from self._snapshot(stream)
        elif chunk.type == END:
            yield self._take_end(stream)
        else:
            self._index(stream, chunk)
        check(chunk.type == EVENTS or stream.used_up or self.damaged, "records after the last one")
        self._chunks.append(chunk)

    # EVENTS

    def _take_events(self, chunk: Chunk, raw: list[bytes]) -> Iterator[str]:
        streams = [Stream(data, chunk.instructions) for data in raw]
        tokens, rare = streams[0], streams[4]
        predictor = Predictor(self.defs, self.slots, streams)
        thread, count = 1, 0
        while True:
            token = tokens.byte()
            run, misses = token >> 3, token & 7
            if run == 31:
                run += tokens.uvarint()
            check(misses <= 3, "an unknown kind of miss")
            for wrong in [0] * run + [misses] * bool(misses):
                for site, addr, block in predictor.accesses(wrong):
                    of_site = self.defs.tables["site"][site]
                    check(of_site, "a site that was lost")
                    size, kind = of_site
                    count += 1
                    yield self._access(kind, block, addr, size, site, thread, rare.time)
            if misses:
                continue
            code = rare.data[rare.at] if not rare.used_up else 0
            name, values = rare.record(EVENTS)
            if name == "stop":
                break
            self.defs.refer(FIELDS[code][1], values)
            if name == "thread":
                thread = values["thread"]
                check(thread <= 65535, "a thread")
                continue
            count += 1
            yield getattr(self, f"_event_{name}")(values, predictor, thread, rare.time)
        check(count == chunk.events, f"{count} events instead of {chunk.events}")
        check(all(stream.used_up for stream in streams), "a stream that is not used up")
        self._events += count

    def _access(self, kind: str, block: Block, addr: int, size: int, site: int, thread: int, time: int) -> str:
        self.totals[kind] += 1
        offset = addr - block.addr
        return event(
            kind,
            handle=block.handle,
            addr=hex(addr),
            size=size,
            offset=offset,
            site=site,
            beyond=1 if offset + size > block.size else None,
            thread=thread,
            time=time,
        )

    def _live(self, slot: int) -> Block:
        check(slot < len(self.slots) and self.slots[slot].live, f"slot {slot} is not live")
        return self.slots[slot]

    def _event_new(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int, before: int = 0) -> str:
        slot = v["slot"]
        check(slot <= len(self.slots) and (slot == len(self.slots) or not self.slots[slot].live), f"slot {slot}")
        check(v["addr"] + v["size"] <= U64 + 1, "a block beyond 2^64")
        block = Block(self._handles, v["addr"], v["size"], v["heap"], self._ordinals)
        self.slots[slot : slot + 1] = [block]
        self._handles += 1
        self._ordinals += 1
        self.totals["new"] += 1
        predictor.place(block.addr, slot)
        return event(
            "new",
            handle=block.handle,
            addr=hex(block.addr),
            size=block.size,
            how=ENUMS["HOW"][v["how"]],
            implied=1 if before else None,
            earlier=1 if before > 1 else None,
            heap=block.heap,
            stack=v["stack"],
            thread=thread,
            time=time,
        )

    def _event_inherit(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        return self._event_new(v, predictor, thread, time, before=1)

    def _event_held(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        return self._event_new(v, predictor, thread, time, before=2)

    def _event_free(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        block = self._live(v["slot"])
        check(v["implied"] <= 1, "implied")
        block.live = False
        self.totals["free"] += 1
        return event(
            "free",
            handle=block.handle,
            addr=hex(block.addr),
            size=block.size,
            implied=v["implied"] or None,
            heap=block.heap,
            stack=v["stack"],
            thread=thread,
            time=time,
        )

    def _event_resize(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        block = self._live(v["slot"])
        old_addr, old_size = block.addr, block.size
        block.addr, block.size = (block.addr + v["moved"]) & U64, v["size"]
        check(block.addr + block.size <= U64 + 1, "a block beyond 2^64")
        block.ordinal = self._ordinals
        self._ordinals += 1
        self.totals["resize"] += 1
        predictor.place(block.addr, v["slot"])
        return event(
            "resize",
            handle=block.handle,
            addr=hex(block.addr),
            size=block.size,
            old_addr=hex(old_addr),
            old_size=old_size,
            heap=block.heap,
            stack=v["stack"],
            thread=thread,
            time=time,
        )

    def _event_mark(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        self.totals["mark"] += 1
        return event("mark", string=v["string"], thread=thread, time=time)

    def _event_badfree(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        check(v["block"] <= self._handles, "the block of a BADFREE")
        self.totals["badfree"] += 1
        return event(
            "badfree",
            addr=hex(v["addr"]),
            reason=ENUMS["REASON"][v["reason"]],
            handle=v["block"] - 1 if v["block"] else None,
            offset=v["offset"] if v["block"] else None,
            heap=v["heap"],
            stack=v["stack"],
            thread=thread,
            time=time,
        )

    def _event_lost(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        self.totals["lost"] += 1
        return event("lost", events=v["events"], string=v["reason"], thread=thread, time=time)

    def _event_touch(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        block = self._live(v["slot"])
        check(v["kind"] in (3, 4, 5) and v["size"] and v["offset"] + v["size"] <= block.size, "a TOUCH")
        kind = ENUMS["KIND"][v["kind"]]
        self.totals[kind] += 1
        return event(
            kind,
            handle=block.handle,
            addr=hex(block.addr + v["offset"]),
            size=v["size"],
            offset=v["offset"],
            site=0,
            kernel=1,
            thread=thread,
            time=time,
        )

    def _of_site(self, v: dict[str, Any]) -> str:
        """The kind of an access to no block, whose record has its kind and size."""
        kind = ENUMS["KIND"][v["kind"]]
        check(v["kind"] in (3, 4, 5) and v["size"], "the access of a FREED or BESIDE")
        check(not v["site"] or self.defs.tables["site"][v["site"]] == (v["size"], kind), "an access unlike its site")
        self.totals["freed"] += 1
        return kind

    def _event_freed(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        check(v["handle"] < self._handles, "the block of a FREED")
        return event(
            self._of_site(v),
            handle=v["handle"],
            addr=hex(v["addr"]),
            size=v["size"],
            offset=v["offset"],
            site=v["site"],
            kernel=None if v["site"] else 1,
            freed=1,
            thread=thread,
            time=time,
        )

    def _event_beside(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        block = self._live(v["slot"])
        offset = v["addr"] - block.addr
        return event(
            self._of_site(v),
            handle=block.handle,
            addr=hex(v["addr"]),
            size=v["size"],
            before=-offset if offset < 0 else None,
            offset=offset if offset >= 0 else None,
            site=v["site"],
            kernel=None if v["site"] else 1,
            beside=1,
            thread=thread,
            time=time,
        )

    def _described(self, kind: str, v: dict[str, Any], thread: int, time: int) -> str:
        block = self._live(v["slot"])
        self.totals[kind] += 1
        what = {kind: ENUMS[kind.upper()][v[kind]]}
        return event(kind, handle=block.handle, addr=hex(block.addr), size=block.size, **what, thread=thread, time=time)

    def _event_type(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        return self._described("type", v, thread, time)

    def _event_reach(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        check(v["reach"] > 0, "a REACH without a reason")
        return self._described("reach", v, thread, time)

    def _event_vm(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        self.totals["state"] += 1
        vm = ENUMS["VM"][v["vm"]]
        number = v["trace"] if vm == "TRACE" else None
        return event("state", heap=v["heap"], vm=vm, trace=number, thread=thread, time=time)

    def _event_sample(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        check(v["weight"] > 0, "a SAMPLE without weight")
        self.totals["sample"] += 1
        return event(
            "sample",
            heap=v["heap"],
            vm=ENUMS["VM"][v["vm"]],
            stack=v["stack"],
            weight=v["weight"],
            thread=thread,
            time=time,
        )

    def _event_call(self, v: dict[str, Any], predictor: Predictor, thread: int, time: int) -> str:
        self.totals["call"] += 1
        return event("call", stack=v["stack"], thread=thread, time=time)

    # other chunks

    def _blocks(self) -> list[tuple[int, ...]]:
        return [(slot, b.handle, b.addr, b.size, b.heap) for slot, b in enumerate(self.slots) if b.live]

    def _checkpoint(self, stream: Stream) -> None:
        name, v = stream.record(CHECKPOINT)
        check(name == "checkpoint" and v["before"] == len(self._listed), "a part of a checkpoint")
        while not stream.used_up:
            name, block = stream.record(CHECKPOINT)
            check(name == "block", "a checkpoint in a checkpoint")
            self._listed.append(tuple(block.values()))
        if len(self._listed) < v["blocks"]:
            return
        if self._adrift:
            self._adrift = False
            self.slots = [Block(0, 0, 0, 0, 0, live=False) for _ in range(max(self._listed)[0] + 1)]
            for slot, handle, addr, size, heap in self._listed:
                self.slots[slot] = Block(handle, addr, size, heap, 0)
        check(sorted(self._listed) == self._blocks(), "a checkpoint of other blocks")
        self._listed = []

    def _list(self, stream: Stream, numbers: list[int]) -> bool:
        """Read a part of a list of ascending numbers. Does another part follow?"""
        more = stream.byte()
        check(more <= 1, "the first byte of a list")
        while not stream.used_up:
            difference = stream.uvarint()
            numbers.append(numbers[-1] + 1 + difference if numbers else difference)
        return more == 1

    def _container_list(self, stream: Stream) -> Iterator[str]:
        before = len(self._containers)
        self._more_containers = self._list(stream, self._containers)
        check(not self._containers or self._containers[-1] >> 1 < self._handles, "CONTAINERS of blocks that never were")
        for number in self._containers[before:]:
            yield f"container handle={number >> 1}" + (" kept=1" if number & 1 else "")

    def _survivor_list(self, stream: Stream) -> None:
        self._more_survivors = self._list(stream, self._survivors)
        if not self._more_survivors and not self.damaged:
            check(self._survivors == sorted(b.ordinal for b in self.slots if b.live), "SURVIVORS of other blocks")

    def _snapshot(self, stream: Stream) -> Iterator[str]:
        code = stream.data[stream.at]
        name, v = stream.record(SNAPSHOT)
        self.defs.refer(FIELDS[code][1], v)
        objects, links = (v["objects"], v["links"]) if name == "snapshot" else (-1, -1)
        check((objects, links) == (self._parts or (0, 0)), "a part of a snapshot")
        yield line(name, None, FIELDS[code][1], v)
        if not self._parts:
            self._linked, self._link = 0, (0, 0)
        self._parts = objects, links
        source, target = self._link
        while not stream.used_up:
            check(self._parts, "records after SNAPEND")
            code = stream.data[stream.at]
            name, v = stream.record(SNAPSHOT)
            number: int | None = None
            if name == "object":
                self.defs.refer(FIELDS[code][1], v)
                check(v["flags"] <= 3, "the flags of an object")
                number, objects = objects, objects + 1
            elif name == "link":
                source, target = (source + v["from"]) & 0xFFFFFFFF, (target + v["to"]) & 0xFFFFFFFF
                self._linked = max(self._linked, source, target)
                self._link = source, target
                is_string = ENUMS["LINKKIND"][v["kind"]] in ("upvalue", "value", "stack")
                check(v["weak"] <= 1 and (not is_string or v["name"] < len(self.defs.tables["string"])), "a link")
                number, links = links, links + 1
            else:
                check(name == "snapend" and (v["objects"], v["links"]) == (objects, links), "the end of a snapshot")
                check(self._linked < objects or not links, "a link to an object that does not exist")
            yield line(name, number, FIELDS[code][1], v)
            self._parts = None if name == "snapend" else (objects, links)

    def _take_end(self, stream: Stream) -> str:
        _, self._end = stream.record(END)
        for kind in [key for key, coding in FIELDS[32][1][1:15]] + ["freed"]:
            check(
                self.damaged or self._end[kind] == self.totals[kind],
                f"{self.totals[kind]} {kind} instead of {self._end[kind]}",
            )
        return line("end", None, FIELDS[32][1], self._end)

    def _index(self, stream: Stream, index: Chunk) -> None:
        check(self._end is not None, "an INDEX before END")
        for chunk in () if self.damaged else self._chunks:
            wanted = (chunk.type, chunk.offset, chunk.events, chunk.first_event, chunk.first_handle)
            check(tuple(stream.record(INDEX)[1].values()) == wanted, "an INDEX of other chunks")
        trailer = self._read(24, "the trailer")
        offset, own = struct.unpack("<QQ", trailer[8:])
        check(trailer[:8] == TRAILER and own == hashed(trailer[:16]) and offset == index.offset, "the trailer")
        check(not self._file.read(1), "bytes after the trailer")


def main(arguments: list[str]) -> int:
    salvage = arguments[:1] == ["--salvage"]
    if len(arguments) != 1 + salvage:
        print("usage: reference.py [--salvage] FILE", file=sys.stderr)
        return 2
    try:
        with open(arguments[-1], "rb") as file:
            reader = Reader(file, (lambda text: print(f"reference.py: {text}", file=sys.stderr)) if salvage else None)
            for text in reader.lines():
                print(text)
    except (Damage, OSError) as error:
        print(f"reference.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
