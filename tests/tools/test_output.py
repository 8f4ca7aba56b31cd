"""Any value becomes text that can be sent: valid, never blank, within the limit."""

import array
import asyncio
import collections
import datetime
import decimal
import enum
import fractions
import itertools
import json
import pathlib
import re
import time
import types
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr, field_serializer

from brida.core.wording import Say
from brida.tools import output
from brida.tools.output import RESULT_LIMIT, TURN_LIMIT, ToolError, describe_error, share
from brida.tools.text import head


def _say(text: str, /, **facts: object) -> str:
    return text.format(**facts)


def render(value: object, *, limit: int = RESULT_LIMIT, say: Say) -> str:
    text = output.render(value, limit=limit, say=say)
    assert isinstance(text, str)
    return text


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int
    more: list[object] = field(default_factory=list)


class Pair(NamedTuple):
    left: int
    right: str


class Model(BaseModel):
    when: datetime.date
    secret: SecretStr


class Stubborn(BaseModel):
    raw: bytes
    n: int = 1

    @field_serializer("n")
    def _fail(self, n: int) -> int:
        raise RuntimeError("never")


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("no")


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no")


class Liar:
    def __repr__(self) -> str:
        return 3  # type: ignore[return-value]


class Hostile:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")

    @__class__.setter
    def __class__(self, value: object) -> None: ...


class Nothing:
    pass


class SelfKey(Mapping[object, object]):
    def __getitem__(self, key: object) -> object:
        return self

    def __iter__(self) -> Iterator[object]:
        return iter([self])

    def __len__(self) -> int:
        return 1


def _breaks() -> Iterator[int]:
    yield 1
    raise ValueError("half way")


PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
DATE = datetime.datetime(2026, 8, 26, 10, 42, 7, tzinfo=datetime.timezone(datetime.timedelta(hours=8)))


_KINDS: list[tuple[object, str]] = [
    (None, "(no output)"),
    ("", "(no output)"),
    ("  \n\t\u2028", "(no output)"),
    ("\u200b\ufeff", "(no output)"),
    ("plain", "plain"),
    (" kept \n", " kept \n"),
    ("a\u2028b\x1b[0m", "a\u2028b\x1b[0m"),
    ("a\x00b", "a\ufffdb"),
    ("\ud83d", "\ufffd"),
    ("\x00", "\ufffd"),
    (Text("still text"), "still text"),
    (0, "0"),
    (False, "false"),
    (2.5, "2.5"),
    ({}, "{}"),
    ([], "[]"),
    ((1, "b"), '[1, "b"]'),
    ({"b", "a", "c"}, '["a", "b", "c"]'),
    ({"a": b"x" * 3}, '{"a": "(binary data: 3 bytes)"}'),
    (PNG, "(binary data: 108 bytes, image/png)"),
    (bytearray(b"%PDF-1.7"), "(binary data: 8 bytes, application/pdf)"),
    (memoryview(b"RIFF....WEBPVP8"), "(binary data: 15 bytes, image/webp)"),
    (b"", "(binary data: 0 bytes)"),
    ({"at": DATE, "on": DATE.date()}, '{"at": "2026-08-26T10:42:07+08:00", "on": "2026-08-26"}'),
    (DATE, "2026-08-26T10:42:07+08:00"),
    (float("nan"), "NaN"),
    ([float("inf"), float("-inf")], '["Infinity", "-Infinity"]'),
    (decimal.Decimal("1.50"), "1.50"),
    (fractions.Fraction(1, 3), "1/3"),
    (pathlib.PurePosixPath("a/b"), "a/b"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Color.RED, "red"),
    ([Level.HIGH], "[3]"),
    (Point(1, [Point(2)]), '{"x": 1, "more": [{"x": 2, "more": []}]}'),
    (Pair(1, "r"), '{"left": 1, "right": "r"}'),
    (Model(when=DATE.date(), secret=SecretStr("s")), '{"when": "2026-08-26", "secret": "**********"}'),
    (Stubborn(raw=b"\xff"), '{"raw": "(binary data: 1 bytes)", "n": 1}'),
    ({1: "a", None: "b", (1, 2): "c", 2.5: "d"}, '{"1": "a", "null": "b", "[1, 2]": "c", "2.5": "d"}'),
    (range(3), "[0, 1, 2]"),
    (collections.deque([1]), "[1]"),
    (array.array("i", [1]), "[1]"),
    ({"a": 1}.items(), '[["a", 1]]'),
    (types.MappingProxyType({"a": 1}), '{"a": 1}'),
    ((n for n in (1, 2)), "[1, 2]"),
    (_breaks(), '[1, "(stopped: ValueError: half way)"]'),
    (ValueError("bad"), "ValueError: bad"),
    ([KeyError("k")], "[\"KeyError: 'k'\"]"),
    (10**2_000_000, "(an integer of 6,643,857 bits)"),
    (2 + 1j, "(2+1j)"),
    (Mute(), "(a value of type Mute that has no text)"),
    (Liar(), "(a value of type Liar that has no text)"),
    (Nothing(), "(a value of type Nothing)"),
    (Hostile(), "(a value of type Hostile that cannot be read: RuntimeError: no class)"),
    (["a\ud83d", "b\x00"], '["a\ufffd", "b\ufffd"]'),
]  # fmt: skip


@pytest.mark.parametrize("value, text", _KINDS, ids=[text[:30] for _, text in _KINDS])
def test_each_kind_of_value_becomes_what_is_documented(value: object, text: str, say: Say) -> None:
    assert render(value, say=say) == text


def test_a_value_inside_itself_is_a_note(say: Say) -> None:
    loop: dict[str, object] = {"n": 1}
    loop["me"] = [loop]
    assert render(loop, say=say) == '{"n": 1, "me": ["(contains itself)"]}'
    assert render(SelfKey(), say=say) == '{"\\"(contains itself)\\"": "(contains itself)"}'


def test_nesting_is_bounded(say: Say) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert "(nested too deep)" in render(deep, say=say)


def test_a_coroutine_is_closed_and_named(say: Say) -> None:
    async def forgotten() -> None: ...

    assert render(forgotten(), say=say) == "(a value of type coroutine that nobody awaited)"
    loop = asyncio.new_event_loop()
    assert "nobody awaited" in render([loop.create_future()], say=say)
    loop.close()


def test_an_endless_generator_ends(say: Say) -> None:
    items = json.loads(render(itertools.repeat(1), say=say))
    assert len(items) == 1_001
    assert items[-1] == "(more items were not taken)"
    assert "cut" in render(itertools.repeat("x" * 1_000), say=say)


def test_ctrl_c_goes_through(say: Say) -> None:
    def interrupted() -> Iterator[int]:
        yield 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        render(interrupted(), say=say)


@pytest.mark.parametrize("limit", [64, 65, 66, 67, 100, 1_000, RESULT_LIMIT])
@pytest.mark.parametrize("unit", ["x", "é", "€", "😀", "\x00\ud83d", " "])
def test_a_cut_is_within_the_limit_says_so_and_splits_no_character(unit: str, limit: int, say: Say) -> None:
    text = unit * 300_000 + "."
    shown = render(text, limit=limit, say=say)
    assert len(shown.encode()) <= limit
    found = re.search(r"\n\.\.\. cut: ([\d,]+) of ([\d,]+) bytes shown\Z", shown)
    assert found is not None
    kept, total = (int(number.replace(",", "")) for number in found.groups())
    assert kept == len(shown[: found.start()].encode())
    assert total == len(text.replace("\x00", "\ufffd").replace("\ud83d", "\ufffd").encode())
    assert limit - len(shown.encode()) < 4 + 4


def test_what_fits_exactly_is_not_cut(say: Say) -> None:
    assert render("é" * 50, limit=100, say=say) == "é" * 50
    assert "cut" in render("é" * 51, limit=100, say=say)


def test_a_limit_that_leaves_no_room_is_a_mistake(say: Say) -> None:
    with pytest.raises(ValueError, match="64 bytes"):
        render("x", limit=63, say=say)


def test_a_long_translation_of_the_notice_stays_within_the_limit() -> None:
    shown = render("x" * 1_000, limit=64, say=lambda text, /, **facts: "ñ" * 500)
    assert len(shown.encode()) <= 64


def test_huge_values_are_looked_at_only_as_far_as_they_fit(say: Say) -> None:
    line = "x" * 5_000_000
    shared: object = "leaf"
    for _ in range(30):
        shared = [shared] * 10
    started = time.process_time()
    for value in (line, [line] * 1_000, {line: line}, ["short"] * 200_000, "short\n" * 200_000, shared,
                  range(10**15), {n: n for n in range(10**5)}, set(range(10**5)), {"a": {"b": [line]}},
                  itertools.repeat(line), memoryview(bytes(5_000_000))):  # fmt: skip
        shown = render(value, say=say)
        assert len(shown.encode()) <= RESULT_LIMIT
    assert time.process_time() - started < 2


_leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary()
    | st.datetimes() | st.decimals() | st.uuids() | st.timedeltas() | st.complex_numbers()
    | st.sampled_from([Color.RED, Level.HIGH])
    | st.builds(Mute) | st.builds(Liar) | st.builds(Nothing) | st.builds(Hostile) | st.builds(SelfKey)
    | st.builds(ValueError, st.text(st.characters())) | st.builds(_breaks) | st.integers(10**5_000, 10**5_001)
)  # fmt: skip
_values = st.recursive(
    _leaves,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.text(st.characters()) | st.integers() | st.tuples(st.integers(), st.text()), inner
        )
        | st.tuples(inner, inner)
        | st.builds(Point, st.integers(), st.lists(inner))
        | st.lists(inner).map(iter)
        | st.frozensets(st.integers() | st.text())
    ),
    max_leaves=20,
)


@given(_values, st.integers(64, 400))
def test_any_value_becomes_encodable_text_within_the_limit(value: object, limit: int) -> None:
    text = render(value, limit=limit, say=_say)
    assert text.strip()
    assert 0 < len(text.encode("utf-8", "strict")) <= limit
    assert "\x00" not in text
    json.dumps(text)


@given(_values)
def test_a_structure_that_is_not_cut_is_json(value: object) -> None:
    text = render([value], limit=10**7, say=_say)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@given(st.text(st.characters(), max_size=50), st.integers(0, 60))
def test_the_head_of_a_text_is_whole_characters_of_it(text: str, size: int) -> None:
    part = head(text, size)
    assert len(part.encode()) <= size
    assert re.sub("[\x00\ud800-\udfff]", "\ufffd", text).startswith(part)


@pytest.mark.parametrize(
    "calls, limit",
    [(0, RESULT_LIMIT), (1, RESULT_LIMIT), (4, RESULT_LIMIT), (5, 26_214), (64, 2_048), (10**6, 1_024)],
)
def test_the_calls_of_a_turn_share_its_limit(calls: int, limit: int) -> None:
    assert share(calls) == limit


@given(st.integers(1, 128))
def test_no_turn_of_usual_size_is_larger_than_its_limit(calls: int) -> None:
    assert calls * share(calls) <= TURN_LIMIT


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "error, text",
    [
        (ValueError("bad value"), "ValueError: bad value"),
        (ValueError(), "ValueError"),
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError("\ud83d\x00"), "ValueError: \ufffd\ufffd"),
        (Unspeakable(), "Unspeakable"),
        (ToolError("the list is empty: add something first"), "the list is empty: add something first"),
        (ToolError(), "the tool failed and did not say why"),
        (ToolError(" "), "the tool failed and did not say why"),
        (
            ExceptionGroup("two", [ValueError("a"), ExceptionGroup("in", [KeyError("b")])]),
            "ExceptionGroup: two (2 sub-exceptions): ValueError: a; KeyError: 'b'",
        ),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
def test_an_error_is_its_type_and_message_and_no_traceback(error: BaseException, text: str, say: Say) -> None:
    error.__cause__ = KeyError("never told")
    assert describe_error(error, say) == text


def test_a_long_error_is_cut(say: Say) -> None:
    for error in (
        ValueError("é" * 10**6),
        ToolError("é" * 10**6),
        ExceptionGroup("g", [ValueError("é" * 10**6)] * 9),
    ):
        text = describe_error(error, say)
        assert len(text.encode()) <= 4_000
        assert "cut: " in text
