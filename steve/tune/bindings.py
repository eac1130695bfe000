"""Which malloc the processes of a command have, as the dynamic linker says (LD_DEBUG=bindings, ld.so(8)).

A library that is mapped need not be the one whose malloc is called: a program that is linked with one malloc library and
started with another one maps both. The C library binds `malloc` once when a process starts a program. If that is bound to
the executable, this either contains malloc, or only code that calls the malloc to which the executable is bound (of an
executable with fixed addresses that uses the address of malloc).

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from steve.system.errors import SteveError
from steve.system.tempfiles import scratch_folder

_BINDING = re.compile(r"\tbinding file (\S.*?) \[0\] to (\S.*?) \[0\]: normal symbol `(\w+)'")
_LIBC = re.compile(r"libc\.so\.6$|libc-2\.")
_LIBRARY = re.compile(r"\.so(\.|$)")


class Image(NamedTuple):
    """A program that a process started. name: as it was started. malloc: the path of the object whose malloc it has."""

    name: str
    malloc: str


def images_of(lines: Iterable[str]) -> list[Image]:
    """The programs of one process in their order, from what the dynamic linker wrote for it."""
    found: list[Image] = []
    for line in lines:
        match = _BINDING.search(line)
        if not match:
            continue
        user, provider, symbol = match.groups()
        base = os.path.basename(user)
        if symbol == "malloc" and _LIBC.match(base):
            found.append(Image("", provider))
            continue
        if found and not found[-1].name and not _LIBRARY.search(base):
            found[-1] = Image(user, found[-1].malloc)
        if symbol == "malloc" and found and provider != user == found[-1].name == found[-1].malloc:
            found[-1] = Image(user, provider)
    return found


def images(command: str, environment: Mapping[str, str]) -> list[Image]:
    """Run the command in a shell, without its output, and with these variables. Returns the programs that it started, without
    the shell. Programs that are linked statically are not seen. SteveError if the command fails."""
    with scratch_folder("steve-bindings-") as folder:
        debug = {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": os.path.join(folder, "of")}
        with subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment, **debug},
        ) as shell:
            status = shell.wait()
        if status:
            raise SteveError(
                f"--verify: the command ended with status {status}; it is to end with 0, also if it has stopped a server"
            )
        found: list[Image] = []
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                of_process = images_of(file)
            found += of_process[1:] if name == f"of.{shell.pid}" else of_process
        return found
