"""Signals that end a command: SIGINT, SIGTERM and SIGHUP unwind the main thread by a KeyboardInterrupt.

An interrupt can come between any two steps of Python. Here are the ways to keep it away from steps that
belong together, and to have it come again where Python would only print it: while it cleans up an object or a
module. How the process then ends is steve.cli's; what is temporary is removed by steve.system.tempfiles.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import signal
import sys
import threading
from contextlib import contextmanager
from collections.abc import Iterator
from typing import Any

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MOMENT = 0.02  # seconds

_held = 0                         # how many blocks hold interrupts back, each in another
_waiting: int | None = None    # the signal that came meanwhile


def install() -> None:
    """Let the signals that end us raise KeyboardInterrupt(signal number) in the main thread; not a hangup
    that nohup(1) has us ignore."""
    for signum in ENDING_SIGNALS:
        if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:
            signal.signal(signum, interrupt)
    sys.unraisablehook = raise_again


def interrupt(signum: int, frame: object) -> None:
    """The handler. Python calls it in the main thread, whichever thread the signal came to."""
    global _waiting
    if _held:
        _waiting = signum
    else:
        raise KeyboardInterrupt(signum)


def raise_again(lost: Any) -> None:
    """For what Python cannot raise where it happened: an interrupt comes again a moment later, when Python is
    out of there; all else is shown."""
    if isinstance(lost.exc_value, KeyboardInterrupt):
        signum = lost.exc_value.args[0] if lost.exc_value.args else signal.SIGINT
        signal.signal(signal.SIGALRM, lambda *_: interrupt(signum, None))
        signal.setitimer(signal.ITIMER_REAL, MOMENT)
    else:
        sys.__unraisablehook__(lost)


@contextmanager
def held_back() -> Iterator[None]:
    """What would interrupt the main thread comes when the block has ended. Other threads are never
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
    """The same for processes that are forked in the block: there, too, signals wait. And for a caller of our
    modules that has handlers of its own."""
    with held_back():
        old = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)
