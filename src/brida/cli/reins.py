"""What Ctrl-C, a hang-up and a request to end mean while a run is under way, and between two."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from brida.core.stops import EXIT_CODES
from brida.runtime.local import LocalRun


class Reins:
    """The signals of a terminal, in a person's hands.

    While a run is held, the first Ctrl-C stops it softly and calls ``tell``, the second ends it at once,
    the third ends the process; a terminal that hangs up, or a service that is told to end, ends the run at
    once. Between runs Ctrl-C calls ``idle`` and the others ``leave``. All three are called in a signal
    handler: they may only schedule what they do.
    """

    def __init__(
        self,
        tell: Callable[[], object],
        *,
        idle: Callable[[], object] = lambda: None,
        leave: Callable[[], object] = lambda: None,
    ) -> None:
        self._tell, self._idle, self._leave = tell, idle, leave
        self._run: LocalRun[Any] | None = None
        self._presses = 0
        self.told_to_end = False
        """Whether the terminal hung up or somebody told the process to end."""

    @contextmanager
    def taken(self) -> Iterator["Reins"]:
        """Takes the signals for the block, and puts back what was there. Only in the main thread."""
        handlers = {signal.SIGINT: self._on_interrupt, signal.SIGTERM: self._on_end}
        if hasattr(signal, "SIGHUP"):
            handlers[signal.SIGHUP] = self._on_end
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def hold(self, run: LocalRun[Any]) -> Iterator[None]:
        """The signals are about this run for the block."""
        self._run, self._presses = run, 0
        if self.told_to_end:
            run.cancel()
        try:
            yield
        finally:
            self._run = None

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._run is None:
            self._idle()
            return
        self._presses += 1
        if self._presses == 1:
            self._run.interrupt()
            self._tell()
        elif self._presses == 2:
            self._run.cancel()
        else:
            os._exit(EXIT_CODES["interrupted"])

    def _on_end(self, _number: int, _frame: FrameType | None) -> None:
        self.told_to_end = True
        if self._run is None:
            self._leave()
        else:
            self._run.cancel()
