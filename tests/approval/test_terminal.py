# mypy: disable-error-code="arg-type,var-annotated"
"""The conversation at a prompt, line by line: what allows, what does not, and what its end does."""

import asyncio
import os
import sys
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.approval import modes
from brida.approval.answers import Answer
from brida.approval.terminal import Terminal
from brida.core.encoding import digest
from brida.core.events import Question
from brida.core.wording import english


class Typed:
    """Lines that a person types, one for each time that one is read; then the input ends."""

    def __init__(self, lines):
        self.lines = list(lines)
        self.discarded = 0

    def discard(self):
        self.discarded += 1

    async def __call__(self):
        return self.lines.pop(0) if self.lines else None


class Change:
    """A change as a tool describes one."""

    def __init__(self, basis, text):
        self.basis, self._text = basis, text

    def diff(self, say):
        return self._text


def question(call_id="t", arguments=None, **more):
    arguments = {"path": "a.txt", "limit": 3} if arguments is None else arguments
    return Question(call_id, "write", arguments, digest("write", arguments), "high", "default = ask", **more)


def ask(lines, *questions, announce=False, environ=None, change=None):
    """The answers, what was shown, and what was read."""
    typed, shown = Typed(lines), []
    terminal = Terminal(english, shown.append, typed, width=100, change=change, environ=environ or {})
    asked = questions or (question(),)
    if announce:
        terminal.announce(asked)

    async def all_of_them():
        return [await terminal(one) for one in asked]

    return asyncio.run(all_of_them()), "".join(shown), typed


@given(st.text(min_size=1).filter(lambda line: line.strip(" \t\r")))
def test_only_enter_and_s_ever_allow(line):
    (answer,), _, _ = ask([line])
    allowed = answer.allow and answer.arguments is None
    assert allowed is (line.strip(" \t\r").lower() == "s")


@given(st.lists(st.text(st.sampled_from('nesvd?q \x1b"{}5ab')), max_size=5))
def test_a_question_with_problems_is_never_allowed_as_it_is(lines):
    (answer,), _, _ = ask(lines, question(problems=("limit: should be a text",), asked={}))
    assert not answer.allow or (answer.arguments or {}) != {"path": "a.txt", "limit": 3}


@pytest.mark.parametrize("lines", [[], ["?"], ["e"], ["e", "b.txt"], ["e path"], ["v"], ["x"]])
def test_the_end_of_the_input_declines_at_every_moment(lines):
    (answer,), _, _ = ask(lines, question(arguments={"path": "a.txt", "content": "x\n" * 900}))
    assert answer == Answer(False, reason="the input ended", by="terminal")


@pytest.mark.parametrize(
    "lines, arguments",
    [
        (["e path b.txt"], {"path": "b.txt", "limit": 3}),
        (["e path  b c.txt "], {"path": "b c.txt", "limit": 3}),
        (["E limit 4"], {"path": "a.txt", "limit": 4}),
        (["e path", "b.txt"], {"path": "b.txt", "limit": 3}),
        (["e", "", "4"], {"path": "a.txt", "limit": 4}),
        (["e", "", "", "e new 5"], {"path": "a.txt", "limit": 3, "new": 5}),
        (["e limit 3", "e limit 3.0"], {"path": "a.txt", "limit": 3.0}),
        (["e limit 1e999", 'e limit "x"'], {"path": "a.txt", "limit": "x"}),
    ],
)
def test_an_edit_in_line_gives_the_arguments_as_they_would_be(lines, arguments):
    (answer,), _, typed = ask(lines)
    assert answer == Answer(True, by="terminal", arguments=arguments)
    assert str(answer.arguments) == str(arguments)
    assert typed.lines == []


@pytest.mark.parametrize("line", ["e path a.txt", "e limit 3"])
def test_an_edit_that_changes_nothing_is_no_answer(line):
    (answer,), shown, _ = ask([line, "n"])
    assert "nothing was changed" in shown
    assert answer.allow is False


def test_what_was_typed_early_is_thrown_away_before_every_line_that_is_read():
    _, _, typed = ask(["e", "", "", "v", "x", "n"])
    assert typed.discarded == 6


def test_a_draft_is_the_questions_own(tmp_path):
    editor = tmp_path / "editor.py"
    editor.write_text("import sys; open(sys.argv[1], 'a').write('broken')")
    environ = {"EDITOR": f"{sys.executable} {editor}"}
    _, shown, _ = ask(["e", "n", "e", "n"], question("a"), question("b"), environ=environ)
    assert shown.count("line 5, column 1") == 2


def test_several_are_listed_once_and_numbered():
    three = [question(name, {"p": name}) for name in "abc"]
    answers, shown, _ = ask(["", "n no", ""], *three, announce=True)
    assert [answer.allow for answer in answers] == [True, False, True]
    assert shown.index("3 calls of this turn") < shown.index("[approve 1 of 3]")
    assert shown.index("[approve 1 of 3]") < shown.index("[approve 2 of 3]") < shown.index("[approve 3 of 3]")
    assert shown.count("calls of this turn") == 1


def test_a_question_after_a_list_has_no_number():
    terminal = Terminal(english, (shown := []).append, Typed(["", "", ""]), environ={})
    two = [question("a"), question("b")]

    async def go():
        terminal.announce(two)
        for one in (*two, question("a")):
            await terminal(one)

    asyncio.run(go())
    assert "[approve] about to run" in shown[-1]


def test_a_difference_on_another_basis_says_that_an_approval_will_fail():
    change = lambda _: Change("sha256:2", "--- a\n+++ b\n-x\n+y\n")  # noqa: E731
    _, shown, _ = ask(["d", "n"], question(basis="sha256:1"), change=change)
    assert "-x\n+y\n" in shown
    assert "has changed since you were asked" in shown
    _, shown, _ = ask(["d", "n"], question(basis="sha256:2"), change=change)
    assert "has changed" not in shown


def test_without_a_basis_d_is_not_understood():
    _, shown, _ = ask(["d", "n"], question(), change=lambda _: Change("x", "diff"))
    assert "not understood" in shown


def test_a_change_that_raises_ends_the_question_with_its_error():
    def broken(_):
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        ask(["d"], question(basis="x"), change=broken)


def test_nothing_raises_where_there_is_no_terminal():
    reading, writing = os.pipe()
    with closing(os.fdopen(reading)), closing(os.fdopen(writing, "w")):
        modes.discard_typed(reading)
        with modes.kept(reading):
            pass
