"""Asking a person at a terminal, before anything runs.

Everything that would run is shown, escaped: what a model wrote cannot move the cursor, hide text or
imitate the prompt. What was typed before the prompt appeared does not count.
"""

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from brida.approval import edits, modes, programs
from brida.approval.answers import Answer, WhatHappened
from brida.approval.pages import Pages
from brida.approval.prompt import Place, Prompt
from brida.approval.witness import ask_what_happened
from brida.core.encoding import digest
from brida.core.events import Question
from brida.core.wording import Say
from brida.errors import BridaError
from brida.texts.terminal import escape

BY: Final = "terminal"
YES: Final = ("y", "yes", "s", "sí", "si", "sim")


class Change(Protocol):
    """What a call would change: ``brida.tools.change.Change`` is one."""

    @property
    def basis(self) -> str: ...
    def diff(self, say: Say, /) -> str:
        """The change as a unified diff."""
        ...


class Always(Protocol):
    """Keeps a rule for good: ``brida.settings.always.Always`` is one. What it raises is shown."""

    @property
    def path(self) -> object: ...
    def preview(self, tool: str) -> str:
        """What the file will hold."""
        ...

    def write(self, tool: str) -> None:
        """Writes it."""
        ...


class ReadLine(Protocol):
    """Reads lines that a person types."""

    def discard(self) -> None:
        """Throws away what was typed so far."""
        ...

    async def __call__(self) -> str | None:
        """The next line; None at the end of the input."""
        ...


class InputEnded(Exception):
    """Nobody can type anything any more."""


class Terminal:
    """An approver at a terminal. ``write`` prints to the person, ``read_line`` gives what was typed.

    An empty line allows once; ``n`` declines, with a reason where one follows; ``s`` allows the tool for
    this session, ``a`` always, where ``always`` keeps such rules: what it writes is shown first; ``e`` edits
    the arguments; ``v`` shows them in full, ``d`` what would change; ``?`` explains; anything else asks
    again; the end of the input declines. Cancelling ends an editor or a pager that is open.
    ``change(question)`` gives what a call would change, or None; it runs in a thread.
    """

    def __init__(
        self,
        say: Say,
        write: Callable[[str], None],
        read_line: ReadLine,
        *,
        width: int = 80,
        change: Callable[[Question], Change | None] | None = None,
        always: Always | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._say = say
        self._prompt = Prompt(say, width, always is not None)
        self._write = write
        self._read_line = read_line
        self._change = change
        self._always = always
        self._environ = environ
        self._pages = Pages(say, write, self._line, environ)
        self._turn = asyncio.Lock()
        self._places: dict[str, Place] = {}
        self._overviews: dict[str, str] = {}
        self._drafts: dict[str, str] = {}

    def announce(self, questions: Sequence[Question]) -> None:
        """Takes the open questions of a turn: they are listed before the first of them is put."""
        if all(question.call_id in self._places for question in questions):
            return  # the same ones again, since one of them was edited
        self._places = {
            question.call_id: Place(number, len(questions)) for number, question in enumerate(questions, 1)
        }
        self._overviews = {questions[0].call_id: self._prompt.overview(questions)}

    async def __call__(self, question: Question) -> Answer:
        """The person's answer to ``question``; one with ``arguments`` where they were edited."""
        async with self._turn:
            try:
                said: Answer | str = self._overviews.pop(question.call_id, "") + self._put(question)
                while isinstance(said, str):
                    said = await self._understand(question, await self._line(said))
            except InputEnded:
                said = Answer(False, reason=self._say("the input ended"), by=BY)
            if said.arguments is None:
                self._places.pop(question.call_id, None)
            self._drafts.pop(question.call_id, None)
            return said

    async def what_happened(self, call: Question) -> WhatHappened:
        """What the person knows of a call whose process died; that nobody knows where the input ends."""
        async with self._turn:
            try:
                return await ask_what_happened(call, self._say, self._prompt, self._line, BY)
            except InputEnded:
                return WhatHappened("unknown", by=BY)

    async def _line(self, text: str) -> str:
        """Shows the text; gives what is typed after it has appeared, since nothing before can answer it."""
        self._read_line.discard()
        self._write(text)
        line = await self._read_line()
        if line is None:
            raise InputEnded
        return line.strip(" \t\r")

    def _put(self, question: Question, said: str = "") -> str:
        shown = self._prompt.question(
            question, self._places.get(question.call_id), difference=self._differs(question)
        )
        return f"{said}\n{shown}" if said else shown

    def _differs(self, question: Question) -> bool:
        return self._change is not None and question.basis is not None

    async def _understand(self, question: Question, line: str) -> Answer | str:
        """The answer that a line is, or what to say where it is none."""
        word, _, rest = line.partition(" ")
        match word.lower():
            case "" if question.problems:
                return self._put(question, self._say("it cannot run like this: edit it again, or decline it"))
            case "":
                return Answer(True, by=BY)
            case "n" | "no":
                return Answer(False, reason=rest.strip(), by=BY)
            case "s" if not (rest or question.raised or question.problems):
                return Answer(True, session=True, by=BY)
            case "a" if not (rest or question.raised or question.problems) and self._always is not None:
                return await self._allow_always(question, self._always)
            case "e":
                return await self._edit(question, rest.strip())
            case "v" if not rest:
                await self._pages.show(lambda: self._prompt.in_full(question))
            case "d" if not rest and self._differs(question):
                await self._pages.show(lambda: self._difference(question))
            case "?":
                self._write(self._prompt.explanation(question, difference=self._differs(question)))
            case _:
                keys = self._prompt.keys(question, difference=self._differs(question), cut=True)
                return self._say("not understood") + "\n" + keys
        return self._put(question)

    async def _allow_always(self, question: Question, always: Always) -> Answer | str:
        """Keeps the rule once the person has seen it; the answer then holds for this session as well."""
        try:
            shown = escape(always.preview(question.tool), multiline=True)
            words = self._say("{file} will be:", file=escape(str(always.path)))
            typed = await self._line(f"{words}\n{shown}\n" + self._say("Write it? [y/N] "))
            if typed.lower() not in YES:
                return self._put(question, self._say("nothing was written"))
            always.write(question.tool)
        except BridaError as error:
            return self._put(question, edits.shown(error))
        return Answer(True, session=True, by=BY)

    # -- editing

    async def _edit(self, question: Question, rest: str) -> Answer | str:
        """The arguments as the person wants them; what to say where nothing came of it."""
        name, _, value = rest.partition(" ")
        try:
            if value.strip():
                typed = edits.value_of(value.strip(), question.arguments.get(name))
                changed: dict[str, object] = {**question.arguments, name: typed}
            elif name or not (editor := programs.editor_of(self._environ)):
                changed = await self._edit_in_line(question, [name] if name else question.arguments)
            else:
                changed = await self._edit_in_editor(question, editor)
            if digest(question.tool, changed) == question.digest:
                raise edits.NotEdited(self._say("nothing was changed"))
        except edits.NotEdited as why:
            return self._put(question, edits.shown(why))
        except (TypeError, ValueError, RecursionError) as error:
            why_not = self._say("this is no value that JSON has: {error}", error=error)
            return self._put(question, edits.shown(why_not))
        return Answer(True, arguments=changed, by=BY)

    async def _edit_in_line(self, question: Question, names: Iterable[str]) -> dict[str, object]:
        changed = dict(question.arguments)
        for name in names:
            before = changed.get(name)
            shown = self._prompt.argument(name, before) + "\n" if name in changed else ""
            ask = self._say("new value of {name} (Enter keeps it): ", name=edits.shown(name))
            if typed := await self._line(shown + ask):
                changed[name] = edits.value_of(typed, before)
        return changed

    async def _edit_in_editor(self, question: Question, editor: str) -> dict[str, object]:
        """What the editor left. Where that is no use, it is kept, and the next edit goes on from it."""
        before = self._drafts.get(question.call_id) or edits.as_text(question.arguments)
        try:
            code, after = await programs.edit_file(shlex.split(editor), before)
        except (OSError, ValueError) as error:
            failed = self._say("the editor {editor} did not work: {error}", editor=editor, error=error)
            raise edits.NotEdited(failed) from error
        if not after.strip():
            self._drafts.pop(question.call_id, None)
            raise edits.NotEdited(self._say("the editor left nothing, so nothing was changed"))
        if after != before:
            self._drafts[question.call_id] = after
        if code in programs.INTERRUPTED:
            raise edits.NotEdited(self._say("the editor was interrupted; e goes on from what it had saved"))
        if code:
            raise edits.NotEdited(
                self._say("the editor failed (exit code {code}); e goes on from what it had saved", code=code)
            )
        if after == before and question.call_id not in self._drafts:
            raise edits.NotEdited(
                self._say("nothing was changed. An editor with a window needs its option that makes it wait")
            )
        return edits.from_text(after, self._say)

    # -- showing

    def _difference(self, question: Question) -> list[str]:
        change = self._change(question) if self._change is not None else None
        if change is None:
            return [self._say("(nothing would change)")]
        lines = self._prompt.difference(change.diff(self._say), colours=programs.has_colours(self._environ))
        if change.basis != question.basis:
            changed = self._say("It has changed since you were asked: if you allow this now, it will fail.")
            lines = [changed, *lines, changed]
        return lines


class StandardInput:
    """Reads lines from the standard input without holding the process: no thread is left waiting for it."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self._held = b""

    def discard(self) -> None:
        """Throws away what was typed so far, where the terminal can do that."""
        self._held = b""
        modes.discard_typed(self._descriptor)

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
