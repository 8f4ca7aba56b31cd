"""What a person reads of a question. All that a model wrote is escaped, and what wraps is marked.

Values are JSON, whose quotes and doubled backslashes leave no doubt about what is in them; after each
``\\n`` of a text a new row begins, so that a file's text reads as lines.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from brida.core.events import Question
from brida.core.wording import Say
from brida.texts.terminal import escape, rows, shorten

ROWS: Final = 16
"""Rows that the values of a question take together; each gets two at least. What is left out is counted."""

MARGIN: Final = " " * 10
NEW: Final = "        + "
OLD: Final = "        - "
WRONG: Final = "        ! "

_LISTED: Final = 2_000  # characters of a call's arguments that its line in a list looks at
_NOTHING: Final = object()


@dataclass(frozen=True, slots=True)
class Place:
    """Which of the open questions of a turn one is: the second of three."""

    number: int
    count: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """Puts questions into words. ``width``: the columns of the terminal; ``always``: rules can be kept."""

    say: Say
    width: int
    always: bool = False

    def question(self, question: Question, place: Place | None, *, difference: bool) -> str:
        """The whole prompt. ``difference``: whether what would change can be shown."""
        lines, cut = self._arguments(question, room=ROWS)
        wrong = [row for problem in question.problems for row in self._wrapped(WRONG, escape(problem))]
        keys = self.keys(question, difference=difference, cut=cut)
        return "\n".join([*self._head(question, place), *lines, *wrong, keys])

    def in_full(self, question: Question) -> list[str]:
        """Every argument, whole, in rows."""
        return [*self._head(question, None), *self._arguments(question, room=None)[0]]

    def lost(self, call: Question) -> list[str]:
        """A call whose process died, and the keys that say what became of it."""
        head = self.say(
            "[unknown] {tool} was under way when its process ended: nobody knows whether it took effect",
            tool=escape(call.tool),
        )
        keys = self.say("h it happened · r it did not: run it now · u nobody knows · q stop")
        return [head, *self._arguments(call, room=ROWS)[0], f"{MARGIN}{keys}\n"]

    def argument(self, name: str, value: object) -> str:
        """One argument that is about to be changed; cut where it is long."""
        indent = self._indent([name])
        made = self._rows(value, indent)
        lines = self._value(MARGIN, name, made[:ROWS], indent, None)
        if left := sum(map(len, made[ROWS:])):
            lines.append(f"{MARGIN}| " + self.say("... {count} more characters", count=left))
        return "\n".join(lines)

    def overview(self, questions: Sequence[Question]) -> str:
        """All open questions of a turn, numbered: what each would run, cut to the width."""
        title = self.say("[approve] {count} calls of this turn wait for an answer:", count=len(questions))
        lines = [title]
        for number, question in enumerate(questions, 1):
            arguments = json.dumps(question.arguments, ensure_ascii=False, separators=(",", ":"))
            call = self.say("{tool} ({impact})", tool=escape(question.tool), impact=self._impact(question))
            lines.append(shorten(f"{MARGIN}{number}  {call}", self.width - 1))
            lines.append(shorten(f"{MARGIN}   {escape(arguments[:_LISTED])}", self.width - 1))
        return "\n".join(lines) + "\n"

    def difference(self, text: str, *, colours: bool) -> list[str]:
        """The lines of a diff, in rows; a row that goes on begins with a bar, as no line of a diff does."""
        room = max(20, self.width - 3)
        lines = []
        for line in text.removesuffix("\n").split("\n"):
            colour = _COLOURS.get(line[:1]) if colours else None
            first, *further = rows(escape(line), room)
            for row in (first, *(f"| {row}" for row in further)):
                lines.append(f"\x1b[{colour}m{row}\x1b[m" if colour else row)
        return lines

    def keys(self, question: Question, *, difference: bool, cut: bool) -> str:
        """The keys that apply to this question, and a line's end."""
        possible = not question.problems
        named = {
            self.say("[Enter] allow once"): possible,
            self.say("n decline (n REASON tells the model why)"): True,
            self.say("e edit"): True,
            self.say("v view all"): cut,
            self.say("d difference"): difference,
            self.say("s allow this session"): possible and not question.raised,
            self.say("a always"): possible and not question.raised and self.always,
            self.say("? why"): True,
        }
        lines = [""]
        for key in (key for key, applies in named.items() if applies):
            longer = f"{lines[-1]} · {key}" if lines[-1] else key
            if lines[-1] and len(MARGIN) + len(longer) >= self.width:
                lines.append(key)
            else:
                lines[-1] = longer
        return "".join(f"{MARGIN}{line}\n" for line in lines)

    def explanation(self, question: Question, *, difference: bool) -> str:
        """Why a person is asked, and what the keys do."""
        texts = [
            self.say(
                "The model asks to run {tool}, and the rule {rule} says that a person decides. Nothing of "
                "this turn has run yet. What you see is exactly what will run, once. Where you decline, the "
                "model hears it, with your reason, and goes on without the call.",
                tool=escape(question.tool),
                rule=escape(question.rule),
            ),
            self.say(
                "e edits the arguments, in the editor that VISUAL or EDITOR names or, without one, here; "
                "e NAME VALUE sets one of them. What you change is checked and shown again before it can "
                "run, and the model hears it. v shows every argument in full."
            ),
        ]
        if difference:
            texts.append(
                self.say("d shows what would change. Where it changes before the call runs, the call fails.")
            )
        room = max(20, self.width - len(MARGIN) - 1)
        lines = [row for text in texts for line in wrap(text, room) for row in rows(line, room)]
        return "".join(f"{MARGIN}{line}\n" for line in lines)

    # -- rows

    def _head(self, question: Question, place: Place | None) -> list[str]:
        facts = {
            "tool": escape(question.tool),
            "impact": self._impact(question),
            "rule": escape(question.rule),
        }
        if place is None:
            head = self.say("[approve] about to run {tool} ({impact}; rule: {rule})", **facts)
        else:
            head = self.say(
                "[approve {number} of {count}] about to run {tool} ({impact}; rule: {rule})",
                number=place.number,
                count=place.count,
                **facts,
            )
        lines = [head]
        if len(rows(head, self.width - 1)) > 1:
            first, *further = rows(head, max(20, self.width - len(MARGIN) - 3))
            lines = [first, *(f"{MARGIN}| {row}" for row in further)]
        if question.asked is not None:
            lines.append(MARGIN + self.say("edited: + is what would run, - is what the model asked for"))
        return lines

    def _arguments(self, question: Question, *, room: int | None) -> tuple[list[str], bool]:
        """The arguments in rows, those that a person has changed marked; and whether something was cut."""
        new, old = question.arguments, question.asked if question.asked is not None else question.arguments
        names = [*old, *(name for name in new if name not in old)]
        indent = self._indent(names)
        made = [(mark, name, self._rows(value, indent)) for mark, name, value in _marked(names, new, old)]
        sizes = [len(value) for _, _, value in made]
        most = None if room is None else _fair_share(sizes, room)
        lines = [line for mark, name, value in made for line in self._value(mark, name, value, indent, most)]
        cut = most is not None and max(sizes, default=0) > most
        return lines or [MARGIN + self.say("(no arguments)")], cut

    def _indent(self, names: Iterable[str]) -> int:
        widest = max((len(escape(name)) for name in names), default=0)
        return min(widest, max(8, self.width // 3)) + len(MARGIN) + 2

    def _rows(self, value: object, indent: int) -> list[str]:
        text = escape(json.dumps(value, ensure_ascii=False))
        return [row for line in _as_lines(text) for row in rows(line, max(20, self.width - indent - 1))]

    def _value(self, mark: str, name: str, value: list[str], indent: int, most: int | None) -> list[str]:
        """One argument with at most so many rows of its value, and how much more of it there is."""
        label, bar = escape(name), f"{MARGIN}|".ljust(indent)
        first, *further = value[:most]
        if len(mark) + len(label) + 2 <= indent:
            lines = [(mark + label).ljust(indent) + first]
        else:
            lines = [*self._wrapped(mark, label), bar + first]
        lines += [bar + row for row in further]
        if most is not None and (left := sum(map(len, value[most:]))):
            lines.append(bar + self.say("... {count} more characters; v shows all of it", count=left))
        return lines

    def _wrapped(self, mark: str, text: str) -> list[str]:
        first, *further = rows(text, max(20, self.width - len(mark) - 3))
        return [mark + first, *(f"{MARGIN}| {row}" for row in further)]

    def _impact(self, question: Question) -> str:
        words = {"high": self.say("high impact"), "idempotent": self.say("can be repeated")}
        return words.get(question.impact) or self.say("only reads")


_COLOURS: Final = {"+": "32", "-": "31", "@": "36"}


def _marked(
    names: Iterable[str], new: Mapping[str, object], old: Mapping[str, object]
) -> Iterable[tuple[str, str, object]]:
    """Every argument with its mark; one that changed comes twice, as it is and as it was."""
    for name in names:
        is_now, was = new.get(name, _NOTHING), old.get(name, _NOTHING)
        if _same(is_now, was):
            yield MARGIN, name, is_now
            continue
        if is_now is not _NOTHING:
            yield NEW, name, is_now
        if was is not _NOTHING:
            yield OLD, name, was


def _same(one: object, other: object) -> bool:
    """Whether two values are the same JSON: to Python ``1``, ``1.0`` and ``True`` are equal."""
    if one is _NOTHING or other is _NOTHING:
        return False
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _fair_share(sizes: Sequence[int], room: int) -> int:
    """The most rows that each may take where all share ``room``: the long get what the short leave."""
    for at, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - at) > room:
            return max(2, room // (len(sizes) - at))
        room -= size
    return max(sizes, default=0) or 1


_TOKEN: Final = re.compile(r"\\(.)")


def _as_lines(text: str) -> list[str]:
    r"""Escaped JSON, a new line after each ``\n`` in it; a closing quote alone stays where it is."""
    *lines, last = _TOKEN.sub(lambda found: found[0] + "\n" * (found[1] == "n"), text).split("\n")
    if last == '"' and lines:
        lines[-1] += last
        return lines
    return [*lines, last]
