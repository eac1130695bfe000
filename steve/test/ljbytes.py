"""Bytes of memprof's and sysprof's files: an encoder for the tests that shares no code with steve.

SPDX-License-Identifier: GPL-2.0-or-later
"""


def uleb(value: int) -> bytes:
    """A number as ULEB128, directly by the definition: groups of seven bits, the lowest first."""
    groups = []
    while True:
        groups.append(value % 128)
        value //= 128
        if not value:
            return bytes([g + 128 for g in groups[:-1]] + [groups[-1]])


def text(value: str) -> bytes:
    data = value.encode()
    return uleb(len(data)) + data


def numbers(*values: int | str) -> bytes:
    return b"".join(text(v) if isinstance(v, str) else uleb(v) for v in values)


def record(header: int, *values: int | str) -> bytes:
    """A header byte followed by numbers and strings."""
    return bytes([header]) + numbers(*values)


def symtab(version: int, *records: bytes) -> bytes:
    return b"ljs" + bytes([version, 0, 0, 0]) + b"".join(records) + b"\x80"


def stream(letters: bytes, version: int, *records: bytes) -> bytes:
    return letters + bytes([version, 0, 0, 0]) + b"".join(records) + b"\x80"
