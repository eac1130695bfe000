"""Signals that end a command: SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt in the main thread.

An interrupt can arrive between any two steps of Python. This module defers it while a group of steps must not
be split. It also raises it again where Python would print and drop the exception: during the cleanup of an
object or a module. steve.cli decides how the process then ends; steve.system.tempfiles removes temporary files.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import signal
import sys
import threading
from contextlib import contextmanager
from collections.abc import Iterator
from typing import Any

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MOMENT = 0.02  # seconds until a lost interrupt is raised again

_held = 0  # depth of nested held_back() blocks
_waiting: int | None = None  # the signal that arrived in them, to be raised at the end of the outermost


def install() -> None:
    """Let ENDING_SIGNALS raise KeyboardInterrupt(signal number) in the main thread. A SIGHUP that is ignored,
    as under nohup(1), stays ignored."""
    for signum in ENDING_SIGNALS:
        if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:
            signal.signal(signum, interrupt)
    sys.unraisablehook = raise_again


def interrupt(signum: int, frame: object) -> None:
    """The signal handler. Python calls it in the main thread, whichever thread received the signal."""
    global _waiting
    if _held:
        _waiting = signum
    else:
        raise KeyboardInterrupt(signum)


def raise_again(lost: Any) -> None:
    """Replacement of sys.unraisablehook, for exceptions that Python cannot raise where they happened: an
    interrupt is raised again after MOMENT, when Python has left that place; anything else is printed."""
    if isinstance(lost.exc_value, KeyboardInterrupt):
        signum = lost.exc_value.args[0] if lost.exc_value.args else signal.SIGINT
        signal.signal(signal.SIGALRM, lambda *_: interrupt(signum, None))
        signal.setitimer(signal.ITIMER_REAL, MOMENT)
    else:
        sys.__unraisablehook__(lost)


@contextmanager
def held_back() -> Iterator[None]:
    """Defer interrupts of the main thread to the end of the `with` block. Other threads are never
    interrupted."""
    global _held, _waiting
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _held += 1
    try:
        yield
    finally:
        _held -= 1
        if not _held and _waiting is not None:
            signum, _waiting = _waiting, None
            raise KeyboardInterrupt(signum)


@contextmanager
def blocked() -> Iterator[None]:
    """As held_back(), but also block the signals themselves: child processes forked in the block inherit that,
    and it works in programs that import these modules and have signal handlers of their own."""
    with held_back():
        old = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)
