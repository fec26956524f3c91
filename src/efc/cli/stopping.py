"""Ctrl-C and a polite kill (SIGTERM): any command ends within seconds, with one line and exit code 130.

Python runs a signal's handler between two steps of the program, and one step may be a long product of matrices. So
there are two parts: the handler, which unwinds the program in good order, and a thread that hears of the signal at once
and ends the process where that takes too long. Everything on disk stands that, as it stands a power loss.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
import time
from types import FrameType

INTERRUPTED = 130
"""The exit code, for both signals."""
PATIENCE = 2.5
"""Seconds from the signal to the end, unless a checkpoint is being written."""
HURRY = 1.0
"""The same, from the second signal on."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """Someone wants the command to end. Not an Exception: nobody shall take it for a failure and go on."""


class Stopping:
    """Hears the signals for as long as it is open; without any effect outside the main thread."""

    saving = threading.Event()
    """Set while a checkpoint is being written that was asked for by a signal: that is worth waiting for."""

    def __init__(self) -> None:
        self.importing, self.heard, self.patient = True, False, False

    def __enter__(self) -> Stopping:
        try:
            self.before = {number: signal.signal(number, self._ask) for number in SIGNALS}
        except ValueError:  # not the main thread
            self.before = {}
            return self
        self.unraisable, sys.unraisablehook = sys.unraisablehook, self._unraisable
        reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        self.waking = signal.set_wakeup_fd(self.writer, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reader,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """After a signal the watch goes on: what others do when Python ends may take its time, too."""
        if self.before and not self.heard:
            for number, handler in self.before.items():  # what would kill without a word is not put back
                signal.signal(number, _end_now if handler is signal.SIG_DFL else handler)
            sys.unraisablehook = self.unraisable
            signal.set_wakeup_fd(self.waking)
            os.close(self.writer)
            atexit.unregister(_end_at_once)
            atexit.register(_end_at_once)

    def ready(self) -> None:
        """All is imported: from now on there may be something to put in order."""
        self.importing = False

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.importing:  # half of a package is no place for an exception, and there is nothing to lose yet
            end(b"efc: interrupted\n")
        raise Interrupted

    def _unraisable(self, lost: sys.UnraisableHookArgs) -> None:
        """Python was clearing something up just then, and lets nothing out of that: the watch ends the process."""
        if not isinstance(lost.exc_value, Interrupted):
            self.unraisable(lost)

    def _watch(self, reader: int) -> None:
        """In a thread: from the first signal on the time runs."""
        deadline = None
        while True:
            left = None if deadline is None or self.patient else max(0.0, deadline - time.monotonic())
            if select.select([reader], [], [], left)[0]:
                heard = os.read(reader, 1)
                if not heard:
                    os.close(reader)
                    return
                if heard[0] in SIGNALS:
                    now = time.monotonic()
                    deadline = now + PATIENCE if deadline is None else min(deadline, now + HURRY)
                    self.heard, self.patient = True, False
            elif self.saving.is_set():
                self.saving.clear()  # once; a second signal ends it
                self.patient = True
            else:
                end(b"efc: interrupted; what was stored before is kept\n")


def _end_now(number: int, frame: FrameType | None) -> None:
    end(b"efc: interrupted; what was stored before is kept\n")


def _end_at_once() -> None:
    """Python is about to end, and clears up: one who does not want to wait for that gets the same exit code."""
    for number in SIGNALS:
        signal.signal(number, _end_now)


@atexit.register  # the first, and so the last to be called
def _end_as_it_is() -> None:
    """From here on Python would put the defaults back, and a command that has done all would seem to be killed."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def end(line: bytes = b"") -> None:
    """Leave at once: Python's own end, with all that is loaded, may take seconds."""
    shown_cursor = b"\x1b[?25h" if os.isatty(2) else b""  # progress bars hide it
    try:
        processes = sys.modules.get("multiprocessing")
        for child in processes.active_children() if processes else ():
            child.kill()  # one that is just starting would complain that nobody is there
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(2, shown_cursor + line)
    finally:
        os._exit(INTERRUPTED)
