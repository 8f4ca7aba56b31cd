"""Where the command line writes: text on stdout, everything else on stderr, hostile text made safe."""

import json
import os
import shutil
import sys
from typing import TextIO

from brida.texts.terminal import escape, for_encoding, shorten


class Screen:
    """The two streams of the command line.

    A stream that is closed, or whose reader has gone, takes what is written and shows nothing: the run
    goes on. What a terminal's encoding cannot hold is written as an escape.
    """

    def __init__(self, stdout: TextIO | None, stderr: TextIO | None) -> None:
        self._stdout, self._stderr = stdout, stderr
        self.out_is_terminal = _is_terminal(stdout)
        self.err_is_terminal = _is_terminal(stderr)
        self._open_line = False
        self.output_lost = False
        """Whether stdout could not be written, as on a full disk; a reader that left is no loss."""

    @property
    def width(self) -> int:
        """Columns for one line of the trace: the terminal's, or 200 where there is none."""
        return max(20, shutil.get_terminal_size((200, 24)).columns) if self.err_is_terminal else 200

    @property
    def out_width(self) -> int:
        """Columns for one line on stdout: the terminal's, or 200 where there is none."""
        return max(20, shutil.get_terminal_size((200, 24)).columns) if self.out_is_terminal else 200

    def line(self, text: str, *, cut: bool = False) -> None:
        """One line on stderr, escaped; ``cut`` shortens it visibly to the width."""
        shown = for_encoding(escape(text), getattr(self._stderr, "encoding", None) or "utf-8")
        self.raw_error((shorten(shown, self.width) if cut else shown) + "\n")

    def over(self, text: str) -> None:
        """A line on stderr that the next one is written over; only where that is a terminal."""
        shown = for_encoding(escape(text), getattr(self._stderr, "encoding", None) or "utf-8")
        self.raw_error(f"\r{shorten(shown, self.width - 1)}\x1b[K")

    def raw_error(self, text: str) -> None:
        """Text on stderr that is safe already."""
        if self._open_line and self.out_is_terminal and self.err_is_terminal:
            self.out("\n")
        self._stderr, _ = _write(self._stderr, text)

    def out(self, text: str) -> None:
        """The model's text on stdout: escaped where that is a terminal, else as it is."""
        if not text:
            return
        self._open_line = not text.endswith("\n")
        shown = escape(text, multiline=True) if self.out_is_terminal else text
        self._stdout, lost = _write(self._stdout, shown)
        self.output_lost = self.output_lost or lost

    def json(self, value: object) -> None:
        """One line of JSON on stdout, in ASCII where the stream holds no more."""
        encoding = (getattr(self._stdout, "encoding", None) or "utf-8").lower().replace("-", "")
        self.out(
            json.dumps(value, ensure_ascii=encoding != "utf8" or self.out_is_terminal, default=str) + "\n"
        )

    def end_line(self) -> None:
        """Ends an open line on stdout."""
        if self._open_line:
            self.out("\n")


def somebody_is_there(screen: Screen) -> bool:
    """Whether a person can be asked: stdin and stderr are both terminals."""
    try:
        return sys.stdin is not None and sys.stdin.isatty() and screen.err_is_terminal
    except ValueError:
        return False


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _write(stream: TextIO | None, text: str) -> tuple[TextIO | None, bool]:
    """Writes and flushes; gives the stream, or None where it takes no more, and whether text was lost."""
    if stream is None:
        return None, False
    try:
        stream.write(for_encoding(text, stream.encoding or "utf-8"))
        stream.flush()
    except (OSError, ValueError) as error:
        silence(stream)
        return None, not isinstance(error, BrokenPipeError)
    return stream, False


def silence(stream: TextIO) -> None:
    """Points a broken stream at nothing, so that closing it at the end of the process says nothing either."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
    except (OSError, ValueError):
        if stream is sys.stdout:
            sys.stdout = None
        elif stream is sys.stderr:
            sys.stderr = None
