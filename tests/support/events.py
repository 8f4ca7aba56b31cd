"""What hypothesis draws events from."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from brida.core.encoding import Block
from brida.core.events import KINDS, Event
from brida.core.prices import Meter, Prices
from brida.core.stops import STOP_CLASSES, Stop
from support.strategies import json_objects

texts = st.text(st.characters(exclude_categories=()), max_size=12)
"""Half surrogate pairs and NUL are among them."""

_SIMPLE: Mapping[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: st.integers(),
    float: st.floats(0, allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    Decimal: st.decimals(-(10**9), 10**9, places=12),
    Block: json_objects,
    Mapping[str, object]: json_objects,
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value that a field with this type may hold."""
    if hint is Stop:
        return st.builds(Stop, st.sampled_from(list(STOP_CLASSES)), json_objects)
    if hint is Prices:
        meters = st.builds(Meter, *[st.decimals(0, 99, places=6)] * 5)
        return st.builds(Prices, st.tuples(meters), texts, texts)
    if dataclasses.is_dataclass(hint):
        fields = {name: values_of(of) for name, of in typing.get_type_hints(hint).items()}
        return st.builds(typing.cast(Any, hint), **fields)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return st.sampled_from(parts)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([st.none() if part is type(None) else values_of(part) for part in parts])
    if origin is tuple:
        return st.lists(values_of(parts[0]), max_size=2).map(tuple)
    return _SIMPLE.get(hint, json_objects)


def events(*, without: tuple[str, ...] = ()) -> st.SearchStrategy[Event]:
    """Any event at all, but of these kinds."""
    return st.one_of([values_of(kind) for name, kind in KINDS.items() if name not in without])
