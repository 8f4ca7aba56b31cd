"""The modes of the terminal that a person types at: kept, restored, and what was typed thrown away.

Nothing here raises where the standard input is no terminal, or one that has hung up.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def kept(descriptor: int) -> Iterator[None]:
    """Leaves the terminal as it was, whatever a program does to it meanwhile and however it ends."""
    before = _try(lambda termios: termios.tcgetattr(descriptor))
    try:
        yield
    finally:
        if before is not None:
            _try(lambda termios: _restore(termios, descriptor, before))


def discard_typed(descriptor: int) -> None:
    """Throws away what was typed and not yet read."""
    _try(lambda termios: termios.tcflush(descriptor, termios.TCIFLUSH))


def _restore(termios: ModuleType, descriptor: int, before: object) -> None:
    if os.tcgetpgrp(descriptor) == os.getpgrp():  # a job in the background would be stopped for it
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def _try(act: Callable[[ModuleType], T]) -> T | None:
    try:
        import termios
    except ImportError:
        return None
    try:
        return act(termios)
    except (termios.error, OSError):
        return None
