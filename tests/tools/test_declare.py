"""How a function becomes a tool, and which functions do not."""

import asyncio
import datetime
import enum
import functools
import json
import keyword
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from brida.core.wording import Say
from brida.tools import Tool, tool

if TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]


def _say(text: str, /, **facts: object) -> str:
    return text.format(**facts)


def _make(code: str, **names: object) -> Callable[..., Any]:
    space = dict(names)
    exec(code, space)  # parameters with any name
    made = space["f"]
    assert callable(made)
    return made


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    title: str = "p"


class Person(BaseModel):
    name: str
    born: datetime.date | None = None
    friends: list["Person"] = []


class Options(TypedDict, total=False):
    deep: bool


def test_a_bare_decorator_gives_the_documented_defaults() -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    assert isinstance(add, Tool)
    assert (add.name, add.description) == ("add", "Add two numbers.")
    assert (add.impact, add.impact_declared) == ("high", False)
    assert (add.polls, add.volatile, add.timeout, add.is_async) == (False, False, 120.0, False)
    assert add(1) == 3
    assert add.definition == {
        "name": "add",
        "description": "Add two numbers.",
        "input_schema": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
            "required": ["a"],
        },
    }


def test_options_are_kept_and_stand_for_what_the_function_says() -> None:
    @tool(impact="read", polls=True, volatile=True, timeout=5, name="look-up", description=" Looks. ")
    async def lookup() -> str:
        """Other."""
        return "found"

    assert (lookup.name, lookup.description, lookup.impact, lookup.impact_declared) == (
        "look-up", "Looks.", "read", True,
    )  # fmt: skip
    assert (lookup.polls, lookup.volatile, lookup.timeout, lookup.is_async) == (True, True, 5.0, True)
    assert asyncio.run(lookup()) == "found"
    empty = {"type": "object", "additionalProperties": False, "properties": {}}
    assert lookup.definition["input_schema"] == empty


def test_the_definition_is_a_copy() -> None:
    @tool
    def f(a: int) -> None: ...

    definition: Any = f.definition
    assert "description" not in definition
    definition["input_schema"]["properties"].clear()
    assert "a" in f.definition["input_schema"]["properties"]  # type: ignore[index]


def test_everything_that_json_carries_arrives_as_its_type() -> None:
    @tool
    def f(
        color: Color,
        point: Point,
        person: Person,
        options: Options,
        mode: Literal["a", 1],
        when: datetime.datetime,
        where: Path,
        pair: tuple[int, str],
        tags: set[str],
        sizes: dict[str, float],
        price: Decimal,
        rows: Iterable[int],
        note: str | None = None,
        limit: int = None,  # type: ignore[assignment] # noqa: RUF013
        far: float = float("inf"),
        base: Path = Path("x"),
    ) -> None: ...

    arguments: dict[str, object] = {
        "color": "red", "point": {"x": 1}, "person": {"name": "Ana", "friends": [{"name": "Bo"}]},
        "options": {"deep": True}, "mode": 1, "when": "2026-08-26T10:42:07+08:00", "where": "a/b",
        "pair": [1, "b"], "tags": ["a", "b"], "sizes": {"s": 1}, "price": "1.50", "rows": [1, 2],
        "limit": None,
    }  # fmt: skip
    assert f.problems(arguments, _say) == ()
    values = f.bind(arguments)
    assert values["color"] is Color.RED
    assert values["point"] == Point(1)
    assert values["person"] == Person(name="Ana", friends=[Person(name="Bo")])
    assert values["where"] == Path("a/b")
    assert (values["pair"], values["tags"], values["rows"]) == ((1, "b"), {"a", "b"}, [1, 2])
    assert values["price"] == Decimal("1.50")
    assert values["limit"] is None
    assert "note" not in values
    jsonschema.Draft202012Validator.check_schema(f.input_schema)
    jsonschema.validate(arguments, f.input_schema)
    assert "title" in f.input_schema["$defs"]["Point"]["properties"]  # type: ignore[index]
    assert "default" not in f.input_schema["properties"]["far"]  # type: ignore[index]
    assert '"title": "' not in json.dumps(f.definition)
    assert f.bind({**arguments, "rows": [], "when": "2026-08-26T10:42:07Z"})["rows"] == []


_names = st.sampled_from(
    ["self", "cls", "model_config", "model_fields", "schema", "json", "validate", "copy", "dict", "class_",
     "_x",     "__y", "_", "p0", "p1", "name", "type", "title", "description", "ñu", "alias", "args", "text"]
) | st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,12}", fullmatch=True)  # fmt: skip


@given(st.lists(_names.filter(lambda name: not keyword.iskeyword(name)), min_size=1, max_size=5, unique=True))
def test_any_legal_parameter_name_works(names: list[str]) -> None:
    made = tool(_make(f"def f({', '.join(f'{name}: int' for name in names)}): return [{', '.join(names)}]"))
    arguments = {name: number for number, name in enumerate(names)}
    assert made.problems(arguments, _say) == ()
    assert made.function(**made.bind(arguments)) == made(**arguments) == list(range(len(names)))
    assert set(made.input_schema["properties"]) == set(names)  # type: ignore[call-overload]
    for name in names:
        (problem,) = made.problems({**arguments, name: "x"}, _say)
        assert problem.startswith(f"{name}: ")


def test_a_description_in_annotated_wins_over_the_docstring() -> None:
    @tool
    def f(
        a: Annotated[int, Field(description="from the hint", ge=1)], b: Annotated[int, "plain"], c: int
    ) -> None:
        """Do.

        Args:
            a: from the docstring
            b: from the docstring
            c: from the docstring
        """

    properties: Any = f.input_schema["properties"]
    assert properties["a"] == {"type": "integer", "minimum": 1, "description": "from the hint"}
    assert properties["b"]["description"] == "plain"
    assert properties["c"]["description"] == "from the docstring"


def test_local_types_in_quotes_are_found() -> None:
    def outer() -> Tool:
        class Far(BaseModel):
            n: int

        def inner() -> Tool:
            class Near(BaseModel):
                far: "Far"

            @tool
            def f(near: "Near", far: "list[Far]") -> "Unknown":  # type: ignore[name-defined] # noqa: F821
                return near.far.n + len(far)

            return f

        return inner()

    f = outer()
    assert f(**f.bind({"near": {"far": {"n": 2}}, "far": [{"n": 1}]})) == 3


def test_the_locals_of_a_stranger_hide_nothing() -> None:
    Path = "not a type"
    assert tool(_takes_path).bind({"p": "a"})["p"] == __import__("pathlib").Path("a")
    assert Path


def _takes_path(p: "Path") -> None: ...


def test_partials_hide_what_is_bound() -> None:
    def send(key: str, to: str, text: str = "hi") -> str:
        """Send it."""
        return f"{key} {to} {text}"

    made = tool(functools.partial(send, "secret", text="bound"))
    assert (made.name, made.description) == ("send", "Send it.")
    assert list(made.input_schema["properties"]) == ["to"]  # type: ignore[call-overload]
    assert "secret" not in json.dumps(made.definition)
    assert made.function(**made.bind({"to": "me"})) == "secret me bound"
    assert made.problems({"to": "me", "text": "x"}, _say) != ()


def test_methods_static_methods_and_callable_objects_work() -> None:
    class Box:
        """A box."""

        def __init__(self, n: int) -> None:
            self.n = n

        def add(self, a: int) -> int:
            return self.n + a

        @tool
        @staticmethod
        def twice(a: int) -> int:
            return 2 * a

        async def __call__(self, a: int) -> int:
            return self.n - a

    box = Box(10)
    assert tool(box.add)(1) == 11
    assert box.twice(4) == 8
    called = tool(name="box")(box)
    assert (called.description, called.is_async) == ("A box.", True)
    assert asyncio.run(called(3)) == 7


def test_a_wrapped_function_keeps_its_signature() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    def f(a: int) -> int:
        """Do."""
        return a

    assert f.function(**f.bind({"a": 1})) == 1


async def _items(a: int) -> AsyncIterator[int]:
    yield a


class _Plain:
    def method(self, a: int) -> None: ...

    @classmethod
    def made(cls, a: int) -> None: ...


@pytest.mark.parametrize(
    "function, message",
    [
        (_make("def f(a): ..."), "f cannot be a tool: parameter a has no type hint"),
        (_make("def f(*args: int): ..."), r"\*args cannot be described"),
        (_make("def f(**kw: int): ..."), r"\*\*kw cannot be described"),
        (_make("def f(a: int, /): ..."), "a is positional-only"),
        (_make("def f(a: 'Nope'): ..."), r"a: Nope cannot be resolved: 'Nope' is not defined"),
        (_make("def f(a: C): ...", C=Callable[[], int]), "parameter a: a model cannot fill the type"),
        (_make("def f(b: int, a: C): ...", C=_Plain), "parameter a: a model cannot fill the type _Plain"),
        (_make("def f(a: int = F): ...", F=Field(3)), r"a has Field\(...\) as its default"),
        (_make("def f(a: A): ...", A=Annotated[int, Field(3)]), "a: write its default in the signature"),
        (_Plain.method, r"looks like a method; make a tool of the bound one"),
        (_Plain, "_Plain is a class"),
        (_items, "async generator"),
        (_Plain.__dict__["made"], "classmethod"),
        (len, "positional-only"),
        (3, "made of a function, not of int"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_the_reason(function: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        tool(function)


def test_a_type_that_is_there_for_the_checker_only_is_refused_by_name() -> None:
    def f(a: "Missing") -> None: ...

    with pytest.raises(TypeError, match="a: Missing cannot be resolved"):
        tool(f)


def test_a_tool_is_not_declared_twice() -> None:
    once = tool(_takes_path)
    with pytest.raises(TypeError, match="is a tool already"):
        tool(once)


@pytest.mark.parametrize("name", ["", "a b", "ñu", "x" * 65, "a.b", "a\n", 3])
def test_a_name_that_the_api_does_not_take_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a tool"):
        tool(name=name)(_takes_path)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(ValueError, match=r"tool\(name=\.\.\.\)"):
        tool(lambda: 1)
    assert tool(name="one")(lambda: 1)() == 1


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_timeout_is_positive_and_finite(timeout: float) -> None:
    with pytest.raises(ValueError, match="positive number of seconds"):
        tool(timeout=timeout)


@pytest.mark.parametrize("timeout", [None, "5", True])
def test_a_timeout_is_a_number(timeout: Any) -> None:
    with pytest.raises(TypeError, match="number of seconds"):
        tool(timeout=timeout)


def test_an_unknown_impact_is_refused() -> None:
    with pytest.raises(ValueError, match="one of read, idempotent, high"):
        tool(impact="low")  # type: ignore[call-overload]


def test_a_tool_may_ask_whatever_the_rules_allow(say: Say) -> None:
    def asks(arguments: Any, say: Say) -> str | None:
        if arguments["p"] == "raise":
            raise KeyError("p")
        answers: dict[str, Any] = {"no": None, "empty": "", "yes": "because", "odd": 1}
        return answers[arguments["p"]]

    made = tool(asks_anyway=asks)(_takes_path)
    assert made.asks_anyway({"p": "no"}, say) is None
    assert made.asks_anyway({"p": "empty"}, say) is None
    assert made.asks_anyway({"p": "yes"}, say) == "because"
    assert made.asks_anyway({"p": "odd"}, say) == "its own check says so"
    assert made.asks_anyway({"p": "raise"}, say) == "its own check failed: KeyError: 'p'"
    assert tool(_takes_path).asks_anyway({"p": "yes"}, say) is None


def test_binding_what_was_not_checked_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="ask problems"):
        tool(_takes_path).bind({"p": 3})
    with pytest.raises(ValueError, match="ask problems"):
        tool(_takes_path).bind({"p": object()})
