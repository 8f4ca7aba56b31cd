"""Any value as JSON text, within a budget: never more than fits is looked at, and nothing raises.

:func:`simplify` says, for one value and one level, what it becomes; :class:`Writer` walks down.
"""

import array
import collections
import dataclasses
import datetime
import enum
import inspect
import io
import json
import math
import numbers
import sys
from collections.abc import (
    Awaitable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    Set,
    ValuesView,
)  # fmt: skip
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, cast

from brida.core.wording import Say
from brida.tools.context import without_secrets
from brida.tools.image import Image
from brida.tools.text import binary_note, clean, error_text, size_of, text_of, type_name

MAX_ITEMS = 1_000
"""How many items are taken of an iterator, which may never end."""

MAX_DEPTH = 32
_MAX_BITS = 4_096  # of an integer; writing a larger one out takes quadratic time, and Python may refuse


@dataclass(frozen=True, slots=True)
class Items:
    """Becomes a JSON list. ``endless``: it may not end by itself."""

    items: Iterable[object]
    endless: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """Becomes a JSON object."""

    pairs: Iterable[tuple[object, object]]


Simple: TypeAlias = bool | int | float | str | Items | Fields | None


class Full(Exception):
    """The budget is spent."""


def simplify(value: object, say: Say) -> Simple:
    """What ``value`` becomes, one level deep. Never raises but for ``KeyboardInterrupt``."""
    try:
        return _simplify(value, say)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return say("(a value of type {type} that cannot be read: {error})",
                   type=type_name(value), error=clean(error_text(error))[:200])  # fmt: skip


def _simplify(value: object, say: Say) -> Simple:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return _simplify(value.value, say)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, numbers.Number):
        return _number(value, say)
    if isinstance(value, bytes | bytearray | memoryview):
        return binary_note(value, say)
    if isinstance(value, Image):
        return value.note(say)
    if isinstance(value, Awaitable):
        if inspect.iscoroutine(value):
            value.close()
        return say("(a value of type {type} that nobody awaited)", type=type_name(value))
    return _container(value, say) or _other(value, say)


def _number(value: numbers.Number, say: Say) -> Simple:
    if isinstance(value, numbers.Integral):  # numpy's too
        integer = int(value)
        if integer.bit_length() > _MAX_BITS:
            return say("(an integer of {bits:,} bits)", bits=integer.bit_length())
        return integer
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        number = float(value)
        if math.isfinite(number):
            return number
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return _other(value, say)


def _container(value: object, say: Say) -> Items | Fields | None:
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return _model(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return Fields((field.name, _attribute(value, field.name, say)) for field in dataclasses.fields(value))
    if isinstance(value, Mapping):
        return Fields(value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return Fields(zip(value._fields, value, strict=False))
    if isinstance(value, Set) and not isinstance(value, KeysView | ItemsView):
        return Items(_sorted(value))
    if isinstance(value, Sequence | Set | ValuesView | collections.deque | array.array):
        return Items(cast(Iterable[object], value))
    if isinstance(value, Iterator) and not isinstance(value, io.IOBase):
        return Items(value, endless=True)
    return None


def _model(value: object) -> Fields:
    """The fields as their author wants them in JSON, or, where that fails, as they are."""
    model = cast("dict[str, object]", getattr(value, "__dict__", {}))
    try:
        dumped = value.model_dump(mode="json", warnings=False)  # type: ignore[attr-defined]
    except KeyboardInterrupt:
        raise
    except BaseException:
        dumped = model
    return Fields(dumped.items()) if isinstance(dumped, Mapping) else Fields([("root", dumped)])


def _attribute(value: object, name: str, say: Say) -> object:
    try:
        return getattr(value, name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return say("(cannot be read: {error})", error=clean(error_text(error))[:200])


def _sorted(value: Set[object]) -> Iterable[object]:
    if len(value) > MAX_ITEMS:
        return value
    try:
        return sorted(value)  # type: ignore[type-var]
    except Exception:
        return value


def _other(value: object, say: Say) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, BaseException):
        return error_text(value)
    cls = type(value)
    if cls.__str__ is object.__str__ and cls.__repr__ is object.__repr__:  # it would only tell an address
        return say("(a value of type {type})", type=type_name(value))
    text = text_of(value)
    return say("(a value of type {type} that has no text)", type=type_name(value)) if text is None else text


class Writer:
    """Writes JSON until ``size`` bytes are full; then raises :class:`Full`, with a bit more in ``text``."""

    def __init__(self, size: int, say: Say, inside: set[int] | None = None) -> None:
        self._room = size
        self._say = say
        self._parts: list[str] = []
        self._open: set[int] = set() if inside is None else inside

    @property
    def text(self) -> str:
        """What was written so far."""
        return "".join(self._parts)

    def write(self, value: object, simple: Simple) -> None:
        """Writes ``value``, of which ``simple`` is the simplified form."""
        if isinstance(simple, str):
            self._string(simple)
        elif not isinstance(simple, Items | Fields):
            self._put(json.dumps(simple))
        elif id(value) in self._open:
            self._string(self._say("(contains itself)"))
        elif len(self._open) >= MAX_DEPTH:
            self._string(self._say("(nested too deep)"))
        else:
            self._open.add(id(value))
            if isinstance(simple, Items):
                self._list(simple)
            else:
                self._object(simple)
            self._open.discard(id(value))

    def _list(self, simple: Items) -> None:
        self._put("[")
        taken = islice(simple.items, MAX_ITEMS + 1) if simple.endless else simple.items
        for number, item in enumerate(self._each(taken)):
            if number:
                self._put(", ")
            if simple.endless and number == MAX_ITEMS:
                self._string(self._say("(more items were not taken)"))
                break
            self.write(item, simplify(item, self._say))
        self._put("]")

    def _object(self, simple: Fields) -> None:
        self._put("{")
        for number, pair in enumerate(self._each(simple.pairs)):
            if number:
                self._put(", ")
            key, value = pair if isinstance(pair, tuple) and len(pair) == 2 else ("", pair)
            self._key(key)
            self._put(": ")
            self.write(value, simplify(value, self._say))
        self._put("}")

    def _key(self, key: object) -> None:
        """Text as it is; numbers, true, false and null in their JSON spelling; the rest in compact JSON."""
        simple = simplify(key, self._say)
        if isinstance(simple, str):
            self._string(simple)
            return
        inner = Writer(self._room, self._say, self._open)
        inner.write(key, simple)
        self._string(inner.text)

    def _each(self, items: Iterable[object]) -> Iterator[object]:
        """The items; where taking one raises, a note is the last."""
        iterator: Iterator[object] | None = None
        while True:
            try:
                iterator = iter(items) if iterator is None else iterator
                item = next(iterator)
            except StopIteration:
                return
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                yield self._say("(stopped: {error})", error=clean(error_text(error))[:200])
                return
            yield item

    def _string(self, text: str) -> None:
        text = without_secrets(text, self._room + 1)
        self._put(json.dumps(clean(text[: self._room + 1]), ensure_ascii=False))

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._room -= size_of(text)
        if self._room < 0:
            raise Full
