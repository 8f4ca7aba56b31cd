# mypy: disable-error-code="arg-type"
"""What a person reads of a question: all of it, or how much more, and nothing that passes for ours."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.approval.prompt import MARGIN, NEW, OLD, WRONG, Place, Prompt
from brida.core.encoding import digest
from brida.core.events import Question
from brida.core.wording import english
from brida.texts.terminal import escape, is_visible

TEXT = st.text(st.characters() | st.sampled_from('\x1b\u202e\u200b\x9b\n\r\ud800\\"[approve]'))
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(TEXT, VALUE, max_size=4)
WIDTH = st.integers(40, 120)


def question(arguments, *, tool="write_file", rule="default = ask", **more):
    return Question("t", tool, arguments, digest(tool, arguments), "high", rule, **more)


def put(asked, *, width=100, place=None, difference=False):
    return Prompt(english, width).question(asked, place, difference=difference)


@given(ARGUMENTS, ARGUMENTS | st.none(), st.lists(TEXT, max_size=2), WIDTH)
def test_every_row_is_visible_and_all_but_the_first_stand_behind_a_margin(new, old, problems, width):
    asked = question(new, asked=old, problems=tuple(problems))
    for text in (put(asked, width=width), "\n".join(Prompt(english, width).in_full(asked))):
        first, *others = text.removesuffix("\n").split("\n")
        assert first.startswith("[approve] about to run ")
        assert [row for row in others if not row.startswith((MARGIN, NEW, OLD, WRONG))] == []
        assert all(is_visible(character) for row in (first, *others) for character in row)


@given(ARGUMENTS, WIDTH)
def test_in_full_every_value_is_there_whole(arguments, width):
    shown = Prompt(english, width).in_full(question(arguments))
    indent = re.compile(r"^ {10}\|? *")
    joined = re.sub(r"\s", "", "".join(indent.sub("", row) for row in shown))
    for value in arguments.values():
        assert re.sub(r"\s", "", escape(json.dumps(value, ensure_ascii=False))) in joined


def test_the_lines_of_a_text_are_rows_and_a_backslash_that_somebody_wrote_is_none():
    shown = put(question({"content": 'a\n  b\\n"c"\n'}))
    assert shown.split("\n")[1:3] == [
        r'          content  "a\n',
        r'          |          b\\n\"c\"\n"',
    ]


def test_what_is_left_out_is_counted_and_v_is_offered_for_it():
    text = json.dumps("x" * 10_000)
    shown = put(question({"content": "x" * 10_000}))
    rows = [row for row in shown.split("\n") if '"x' in row or "xxx" in row]
    there = sum(row.count("x") for row in rows) + 1
    assert f"... {len(text) - there} more characters; v shows all of it" in shown
    assert "v view all" in shown
    assert "v view all" not in put(question({"content": "x"}))


def test_an_edit_shows_what_is_new_and_what_the_model_asked_for():
    shown = put(question({"path": "right", "more": 1}, asked={"path": "wrong", "less": 1.0}))
    assert shown.split("\n")[1:6] == [
        "          edited: + is what would run, - is what the model asked for",
        '        + path  "right"',
        '        - path  "wrong"',
        "        - less  1.0",
        "        + more  1",
    ]


def test_values_that_only_python_takes_for_equal_are_marked():
    shown = put(question({"a": 1, "b": True}, asked={"a": 1.0, "b": 1}))
    assert shown.count(NEW) == shown.count(OLD) == 2


@pytest.mark.parametrize(
    "facts, keys",
    [
        ({}, "[Enter] n e s ?"),
        ({"raised": True}, "[Enter] n e ?"),
        ({"problems": ("path: should be a text",), "asked": {}}, "n e ?"),
    ],
)
@pytest.mark.parametrize("difference", [False, True])
def test_the_keys_that_apply_are_shown(facts, keys, difference):
    shown = put(question({"path": "a"}, **facts), width=200, difference=difference)
    wanted = keys.replace(" e ", " e d ") if difference else keys
    assert [key.split()[0] for key in shown.strip().split("\n")[-1].split(" · ")] == wanted.split()


@given(st.integers(30, 200))
def test_the_keys_keep_to_the_width(width):
    keys = Prompt(english, width).keys(question({}), difference=True, cut=True)
    longest = len(MARGIN + "n decline (n REASON tells the model why)")
    assert max(map(len, keys.split("\n"))) <= max(width, longest)


def test_a_name_without_end_does_not_push_its_value_aside():
    shown = put(question({"n" * 500: "value"}), width=80)
    assert all(len(row) < 80 for row in shown.split("\n"))
    assert '"value"' in shown


def test_a_list_has_every_call_cut_to_the_width():
    asked = [question({"path": "\x1b" * 500}), question({}, tool="other")]
    shown = Prompt(english, 60).overview(asked)
    assert shown.split("\n")[0] == "[approve] 2 calls of this turn wait for an answer:"
    assert "1  write_file (high impact)" in shown
    assert "2  other (high impact)" in shown
    assert all(len(row) < 60 for row in shown.split("\n"))
    assert "\x1b" not in shown


def test_a_question_of_several_says_which_it_is():
    assert put(question({}), place=Place(2, 3)).startswith("[approve 2 of 3] about to run write_file (high")


@given(TEXT, st.booleans(), WIDTH)
def test_a_row_of_a_difference_begins_as_a_line_of_it_or_with_a_bar(text, colours, width):
    shown = Prompt(english, width).difference(text, colours=colours)
    plain = [re.sub(r"\x1b\[(3[126])?m", "", row) for row in shown]
    joined = "".join(("" if row.startswith("| ") else "\n") + row.removeprefix("| ") for row in plain)
    if "|" not in text:
        assert joined == "".join("\n" + escape(line) for line in text.removesuffix("\n").split("\n"))
    assert all(is_visible(character) for row in plain for character in row)


@pytest.mark.parametrize(
    "sizes, rows",
    [([400], 16), ([1, 400], 15), ([1, 400, 400], 7), ([1, 1, 4], 4), ([30] * 20, 2), ([], 1)],
)
def test_long_values_get_the_rows_that_short_ones_leave(sizes, rows):
    arguments = {f"a{number}": "x\n" * size for number, size in enumerate(sizes)}
    shown = put(question(arguments)).split("\n")
    longest = 1
    row = 0
    for line in shown[1:-2]:
        row = row + 1 if line.startswith(f"{MARGIN}|") else 1
        longest = max(longest, row - ("more characters" in line))
    assert longest == rows


@given(st.text(st.characters() | st.sampled_from("\n[approve] ")), WIDTH)
def test_an_explanation_stands_behind_the_margin(rule, width):
    shown = Prompt(english, width).explanation(question({}, rule=rule), difference=True)
    assert [
        line for line in shown.splitlines() if not line.startswith(MARGIN) or not line.isprintable()
    ] == []


def test_where_a_value_is_typed_no_key_is_offered():
    shown = Prompt(english, 80).argument("content", "x\n" * 100)
    assert "more characters" in shown
    assert "v shows" not in shown
