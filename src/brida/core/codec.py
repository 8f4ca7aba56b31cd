"""Events as JSON and back: one codec for the journal, exports and streams of events.

A record of a version or kind that this code does not know is refused: unknown means stop.
"""

import json
import types
import typing
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import cache

from brida.core.encoding import encode
from brida.core.events import KINDS, VERSION, Event


def to_json(event: Event) -> dict[str, object]:
    """The event as a JSON object, its kind and the version of the record first."""
    return {"kind": type(event).__name__, "version": VERSION, **plain(event)}


def encode_event(event: Event) -> bytes:
    """The event as one line of JSON, without the line's end."""
    return encode(to_json(event))


def decode_event(line: bytes | str) -> Event:
    """The event that ``line`` holds.

    Raises ``ValueError`` where the line is no record, where its version is newer than this code, and
    where a kind or a field is unknown or missing: a journal is read whole or not at all.
    """
    return from_json(json.loads(line))


def from_json(record: object) -> Event:
    """The event that :func:`to_json` gave; raises ``ValueError`` as :func:`decode_event` does."""
    if not isinstance(record, dict) or record.get("version") not in range(1, VERSION + 1):
        raise ValueError(f"version: expected a record of version 1 to {VERSION}, got {str(record)[:80]}")
    kind = KINDS.get(str(record.get("kind")))
    if kind is None:
        raise ValueError(f"kind: {record.get('kind')!r} is unknown; it is one of {', '.join(KINDS)}")
    values = {name: value for name, value in record.items() if name not in ("kind", "version")}
    if not isinstance(values.get("at"), int | float):
        raise ValueError(f"at: expected the time of the event in seconds, got {values.get('at')!r}")
    return typing.cast(Event, build(kind, values))


def plain(value: object) -> dict[str, object]:
    """A dataclass as a JSON object; decimals are texts, so that they stay exact."""
    return {field.name: _plain_value(getattr(value, field.name)) for field in fields(value)}  # type: ignore[arg-type]


def _plain_value(value: object) -> object:
    if is_dataclass(value):
        return plain(value)
    if isinstance(value, tuple):
        return [_plain_value(item) for item in value]
    return str(value) if isinstance(value, Decimal) else value


@cache
def _hints(kind: type) -> dict[str, object]:
    return typing.get_type_hints(kind)


def build(kind: type, values: object) -> object:
    """The dataclass that :func:`plain` was given. Raises ``ValueError`` where it does not fit."""
    if not isinstance(values, dict):
        raise ValueError(f"{kind.__name__}: expected an object, got {str(values)[:80]}")
    hints = _hints(kind)
    unknown = values.keys() - hints.keys()
    if unknown:
        raise ValueError(f"{kind.__name__}: unknown field {min(unknown)!r}")
    try:
        return kind(**{name: _revive(hints[name], value) for name, value in values.items()})
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from error


def _revive(hint: object, value: object) -> object:
    """Dataclasses and tuples come back as such; every other value is what JSON gave."""
    if value is None:
        return None
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        listed = [part for part in parts if typing.get_origin(part) is tuple]
        if Decimal in parts and isinstance(value, str):
            return _decimal(value)
        hint = listed[0] if listed and isinstance(value, list) else parts[0]
    if isinstance(hint, type) and is_dataclass(hint):
        return build(hint, value)
    if typing.get_origin(hint) is tuple and isinstance(value, list):
        (item, *_) = typing.get_args(hint)
        return tuple(_revive(item, part) for part in value)
    return value


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError(f"expected a decimal number, got {text[:80]!r}") from None
