"""Asking a person at a terminal, before anything runs.

Everything that would run is shown, escaped: what a model wrote cannot move the cursor, hide text or
imitate the prompt. What was typed before the prompt appeared does not count.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Final, Protocol

from brida.approval.answers import Answer
from brida.core.events import Question
from brida.core.wording import Say
from brida.texts.terminal import escape, rows

SHOWN: Final = 4_000
"""Characters of one argument that are shown at once; the rest is counted, and shown in full on ``?``."""


MARGIN: Final = " " * 10


class Terminal:
    """An approver at a terminal. ``write`` prints to the person, ``read_line`` gives what was typed.

    An empty line allows once; ``n`` declines, with a reason where one follows; ``s`` allows the tool for
    this session; ``?`` explains and shows every argument in full; anything else asks again; the end of
    the input declines.
    """

    def __init__(
        self, say: Say, write: Callable[[str], None], read_line: "ReadLine", *, width: int = 80
    ) -> None:
        self._say = say
        self._width = width
        self._write = write
        self._read_line = read_line
        self._turn = asyncio.Lock()

    async def __call__(self, question: Question) -> Answer:
        """The person's answer to ``question``."""
        async with self._turn:
            said: Answer | str = self._prompt(question, limit=SHOWN)
            while isinstance(said, str):
                self._read_line.discard()  # what was typed before this appears is no answer to it
                self._write(said)
                said = self._understand(question, await self._read_line())
            return said

    def _understand(self, question: Question, line: str | None) -> Answer | str:
        """The answer that a line is, or what to say where it is none."""
        if line is None:
            return Answer(False, reason=self._say("the input ended"), by="terminal")
        word, _, rest = line.strip().partition(" ")
        match word.lower():
            case "":
                return Answer(True, by="terminal")
            case "n" | "no":
                return Answer(False, reason=rest.strip(), by="terminal")
            case "s" if not rest and not question.raised:
                return Answer(True, session=True, by="terminal")
            case "?":
                return self._explanation(question) + self._prompt(question, limit=None)
            case _:
                return self._say("not understood") + "\n" + self._keys(question)

    def _prompt(self, question: Question, *, limit: int | None) -> str:
        head = self._say(
            "[approve] about to run {tool} ({impact}; rule: {rule})",
            tool=escape(question.tool),
            impact=self._impact(question),
            rule=escape(question.rule),
        )
        if len(rows(head, self._width - 1)) > 1:
            head = f"\n{MARGIN}| ".join(rows(head, max(20, self._width - len(MARGIN) - 3)))
        indent = max((len(escape(name)) for name in question.arguments), default=0) + len(MARGIN) + 2
        lines = [
            line
            for name, value in question.arguments.items()
            for line in self._lines(name, value, indent, limit)
        ]
        nothing = [MARGIN + self._say("(no arguments)")]
        return "\n".join([head, *(lines or nothing), self._keys(question)])

    def _lines(self, name: str, value: object, indent: int, limit: int | None) -> list[str]:
        """One argument, in rows of our own making: what wraps is marked, so that it imitates nothing."""
        text = json.dumps(value, ensure_ascii=False)
        first, *further = rows(escape(text[:limit]), max(20, self._width - indent - 1))
        lines = [f"{MARGIN}{escape(name)}".ljust(indent) + first]
        lines += [(MARGIN + "|").ljust(indent) + row for row in further]
        if limit is not None and len(text) > limit:
            more = self._say("... {count} more characters; ? shows all of it", count=len(text) - limit)
            lines.append((MARGIN + "|").ljust(indent) + more)
        return lines

    def _impact(self, question: Question) -> str:
        words = {"high": self._say("high impact"), "idempotent": self._say("can be repeated")}
        return words.get(question.impact) or self._say("only reads")

    def _keys(self, question: Question) -> str:
        if question.raised:
            keys = self._say("[Enter] allow once · n decline (n REASON tells the model why) · ? why")
        else:
            keys = self._say(
                "[Enter] allow once · n decline (n REASON tells the model why) · s allow this session · ? why"
            )
        return f"{MARGIN}{keys}\n"

    def _explanation(self, question: Question) -> str:
        return (
            self._say(
                "The model asks to run {tool}, and the rule {rule} says that a person decides. Nothing of "
                "this turn has run yet. What you see is exactly what will run, once. Where you decline, the "
                "model hears it, with your reason, and goes on without the call.",
                tool=escape(question.tool),
                rule=escape(question.rule),
            )
            + "\n"
        )


class ReadLine(Protocol):
    """Reads lines that a person types."""

    def discard(self) -> None:
        """Throws away what was typed so far."""
        ...

    async def __call__(self) -> str | None:
        """The next line; None at the end of the input."""
        ...


class StandardInput:
    """Reads lines from the standard input without holding the process: no thread is left waiting for it."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self._held = b""

    def discard(self) -> None:
        """Throws away what was typed so far, where the terminal can do that."""
        self._held = b""
        try:
            import termios

            termios.tcflush(self._descriptor, termios.TCIFLUSH)
        except (ImportError, OSError):
            return

    async def __call__(self) -> str | None:
        """The next line that was typed; None at the end of the input."""
        while b"\n" not in self._held:
            await self._readable()
            try:
                piece = os.read(self._descriptor, 4096)
            except OSError:  # the terminal has hung up
                return None
            if not piece:
                return None
            self._held += piece
        line, _, self._held = self._held.partition(b"\n")
        return line.decode(sys.stdin.encoding or "utf-8", "replace")

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(self._descriptor, _wake, ready)
        except (NotImplementedError, PermissionError):
            return  # this loop cannot watch the input: the read itself waits
        try:
            await ready
        finally:
            loop.remove_reader(self._descriptor)


def _wake(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
