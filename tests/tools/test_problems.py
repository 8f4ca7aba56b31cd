"""What the model is told of arguments that do not fit."""

import datetime
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, field_validator

from brida.core.wording import Say
from brida.tools import tool


class Filter(BaseModel):
    name: str
    sizes: list[int] = []

    @field_validator("name")
    @classmethod
    def _check(cls, name: str) -> str:
        match name:
            case "key":
                raise KeyError("no such thing")
            case "value":
                raise ValueError("x" * 5_000)
            case "exit":
                raise SystemExit(3)
            case "recursion":
                raise RecursionError
        return name


class _Garbage(ValueError):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def _raises_garbage(value: str) -> str:
    raise _Garbage


@tool
def search(
    query: str,
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
    ratio: float = 1.0,
    mode: Literal["fast", "slow"] = "fast",
    filters: list[Filter] = [],  # noqa: B006
    either: int | list[str] | None = None,
    when: datetime.datetime | None = None,
    day: datetime.date | None = None,
    code: Annotated[str, Field(max_length=3, pattern="^[a-z]+$")] = "abc",
    deep: bool = False,
    odd: Annotated[str, AfterValidator(_raises_garbage)] = "",
    anything: Any = None,
) -> None:
    """Search."""


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ({}, ("query: is missing",)),
        ({"query": 3}, ("query: should be a text, got 3",)),
        ({"query": "q", "limit": "5"}, ('limit: should be an integer, got "5"',)),
        ({"query": "q", "limit": 5.0}, ("limit: should be an integer, got 5.0",)),
        ({"query": "q", "limit": True}, ("limit: should be an integer, got true",)),
        ({"query": "q", "limit": 0}, ("limit: should be at least 1, got 0",)),
        ({"query": "q", "limit": 51}, ("limit: should be at most 50, got 51",)),
        ({"query": "q", "ratio": "1"}, ('ratio: should be a number, got "1"',)),
        ({"query": "q", "mode": "slwo"}, ("mode: should be one of 'fast' or 'slow', got \"slwo\"",)),
        ({"query": "q", "deep": 1}, ("deep: should be true or false, got 1",)),
        ({"query": "q", "filters": {}}, ("filters: should be a list, got {}",)),
        ({"query": "q", "filters": [3]}, ("filters[0]: should be an object, got 3",)),
        (
            {"query": "q", "filters": [{"name": "n"}, {"sizes": [1, "2"]}]},
            ("filters[1].name: is missing", 'filters[1].sizes[1]: should be an integer, got "2"'),
        ),
        ({"query": "q", "either": {}}, ("either: should be an integer or should be a list, got {}",)),
        ({"query": "q", "either": ["a", 2]}, None),
        (
            {"query": "q", "when": "soon"},
            ('when: should be a date and time like 2026-08-26T10:42:07+08:00, got "soon"',),
        ),
        ({"query": "q", "day": "soon"}, ('day: should be a date like 2026-08-26, got "soon"',)),
        ({"query": "q", "code": "abcd"}, ('code: should have at most 3 characters, got "abcd"',)),
        ({"query": "q", "code": "1"}, ('code: should match the pattern ^[a-z]+$, got "1"',)),
        ({"query": None, "limt": 3}, None),
        ({"query": "q", "filters": [{"name": "key"}]},
         ("the arguments cannot be checked: KeyError: 'no such thing'",)),
        ({"query": "q", "filters": [{"name": "exit"}]}, ("the arguments cannot be checked: SystemExit: 3",)),
        ({"query": "q", "odd": "x"}, None),
        ({"query": "q", "ratio": float("nan")}, ("ratio: should be a finite number, got nan",)),
        ({"query": "q", "limit": 10**5_000}, ("limit: the number is too large",)),
        ({"query": "\ud83d"}, ("query: holds half of a surrogate pair, which is not valid text",)),
        ({"query": "q", "\ud83d": 1}, ("\ufffd: this name is not valid text",)),
        ({"query": "q", "anything": {"a": b"x"}}, ("anything.a: is not JSON but bytes",)),
        ({3: 4}, ("[3]: this name is not valid text",)),
        ([], ("the arguments should be an object, got []",)),
        ("text", ('the arguments should be an object, got "text"',)),
        (None, ("the arguments should be an object, got null",)),
    ],
)  # fmt: skip
def test_each_field_says_what_it_should_be_and_what_came(arguments: Any, expected: Any, say: Say) -> None:
    problems = search.problems(arguments, say)
    if expected is None:
        assert problems
    else:
        assert problems == expected


def test_arguments_that_fit_have_no_problems(say: Say) -> None:
    arguments = {
        "query": "",
        "ratio": 5,
        "when": "2026-08-26T10:42:07Z",
        "either": ["a"],
        "anything": {"x": [1]},
    }
    assert search.problems(arguments, say) == ()
    assert search.bind(arguments)["ratio"] == 5


def test_an_unknown_name_is_answered_with_those_there_are(say: Say) -> None:
    (problem,) = search.problems({"query": "q", "limt": 3}, say)
    assert problem.startswith("limt: there is no such parameter; there are: query, limit, ratio")
    nothing = tool(name="nothing")(lambda: None)
    assert nothing.problems({"a": 1}, say) == ("a: there is no such parameter; there are none at all",)


def test_no_more_than_200_characters_of_a_value_are_repeated(say: Say) -> None:
    for huge in ("z" * 10**6, ["z" * 10**6] * 10, {"z" * 10**6: "z" * 10**6}, ["z"] * 10**5):
        for arguments in ({"query": "q", "limit": huge}, {"query": "q", "filters": [{"name": "value"}]}):
            (problem,) = search.problems(arguments, say)
            assert problem.count("z") <= 200
            assert problem.count("x") <= 200
    (problem,) = search.problems({"query": "q", "z" * 10**6: 1}, say)
    assert problem.count("z") <= 200


def test_many_problems_are_counted_not_listed(say: Say) -> None:
    problems = search.problems({f"a{number}": 1 for number in range(100)}, say)
    assert len(problems) == 21
    assert problems[-1] == "there are 81 problems more"


def test_what_nests_without_end_or_is_shared_without_end_is_refused(say: Say) -> None:
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    loop: list[object] = []
    loop.append(loop)
    shared: object = "x"
    for _ in range(60):
        shared = [shared, shared]
    assert "nested too deep" in search.problems({"query": "q", "anything": deep}, say)[0]
    assert "nested too deep" in search.problems({"query": "q", "anything": loop}, say)[0]
    assert search.problems({"query": "q", "anything": shared}, say) == ("the arguments hold too many values",)


def test_ctrl_c_in_a_validator_goes_through(say: Say) -> None:
    def interrupt(value: int) -> int:
        raise KeyboardInterrupt

    def f(a: Annotated[int, AfterValidator(interrupt)]) -> None: ...

    with pytest.raises(KeyboardInterrupt):
        tool(f).problems({"a": 1}, say)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.just("key")
    | st.binary(max_size=3) | st.integers(10**4_300, 10**4_301),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(), max_size=5), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


_parameters = st.sampled_from(list(search.input_schema["properties"]))  # type: ignore[call-overload]


@given(st.dictionaries(_parameters, _json, max_size=6))
def test_nothing_that_arguments_hold_makes_it_raise(arguments: dict[str, object]) -> None:
    problems = search.problems(arguments, lambda text, /, **facts: text.format(**facts))
    for problem in problems:
        assert problem.encode()
        assert len(problem) < 1_000
    if not problems:
        assert set(search.bind(arguments)) == set(arguments)
