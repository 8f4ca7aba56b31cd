"""Arguments as text for an editor and back, and values that are typed in a line."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.approval.edits import NotEdited, as_text, from_text, shown, value_of
from brida.core.wording import english
from brida.texts.terminal import is_visible

TEXT = st.text(
    st.characters() | st.sampled_from('\x1b\u202e\u200b\x9b\ud800"\\\n:*- vimex')
) | st.sampled_from(["vim: set x:", "# ex:x", "-*- mode -*-", "Local Variables:", "Vi:x", "vim>700: x"])
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(TEXT, VALUE, max_size=4)


@given(ARGUMENTS)
def test_an_editor_that_only_saves_changes_nothing(arguments):
    assert from_text(as_text(arguments), english) == arguments


@given(ARGUMENTS)
def test_an_editor_is_shown_nothing_that_hides_and_nothing_that_instructs_it(arguments):
    text = as_text(arguments)
    assert [one for one in text if one != "\n" and not is_visible(one)] == []
    assert re.search(r"(?i)(^|\s)(vim?[<=>]?\d*|ex):", text) is None
    assert "-*-" not in text
    assert "local variables:" not in text.lower()
    text.encode()


@pytest.mark.parametrize(
    "text", ["[]", '"a"', "1", "null", "{", '{"a": NaN}', '{"a": -Infinity}', "", "[" * 200_000]
)
def test_what_is_no_object_of_json_is_no_edit(text):
    with pytest.raises(NotEdited):
        from_text(text, english)


def test_where_json_is_broken_is_said():
    with pytest.raises(NotEdited, match="line 2, column 7"):
        from_text('{"a": 1,\n "b": x}', english)


@pytest.mark.parametrize(
    "typed, before, value",
    [
        ("docs/notes.txt", "notes.txt", "docs/notes.txt"),
        ("5", "notes.txt", "5"),
        ("true", "notes.txt", "true"),
        ("{}", "notes.txt", "{}"),
        ('"5"', "notes.txt", "5"),
        ('"two\\nlines"', "", "two\nlines"),
        ('"', "", '"'),
        ("5", 4, 5),
        ("[1, 2]", [], [1, 2]),
        ("true", None, True),
        ("blue", None, "blue"),
        ("blue", 4, "blue"),
        ("NaN", 4.0, "NaN"),
        ("[" * 200_000, [], "[" * 200_000),
    ],
)
def test_a_typed_value_is_json_and_in_place_of_a_text_a_text(typed, before, value):
    assert value_of(typed, before) == value
    assert type(value_of(typed, before)) is type(value)


@given(TEXT)
def test_every_text_can_be_typed_as_json(text):
    assert value_of(json.dumps(text), "before") == text


def test_a_reason_is_shown_on_one_line_and_not_without_end():
    assert shown("a\x1b[2J\nb") == r"a\x1b[2J\nb"
    assert len(shown("x" * 10_000)) < 600
