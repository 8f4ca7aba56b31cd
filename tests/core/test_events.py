"""The codec: every event comes back as it was, and what is not known is refused."""

import dataclasses
import json
import types
import typing
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.core.codec import decode_event, encode_event, to_json
from brida.core.encoding import Block
from brida.core.events import (
    KINDS,
    VERSION,
    BudgetsRead,
    CallWaits,
    ChildSent,
    ChildSettled,
    Fault,
    Received,
    Reply,
    Resumed,
    Said,
    Sent,
    Started,
    TokensCounted,
)
from brida.core.ledger import Left, Reserve
from brida.core.prices import Meter, Prices
from brida.core.stops import STOP_CLASSES, Stop
from brida.core.usage import Usage
from support.loop import FakeTool, says, started
from support.strategies import json_objects, texts

SIMPLE = {
    str: texts,
    int: st.integers(),
    float: st.floats(0, allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    Block: json_objects,
    typing.Mapping[str, object]: json_objects,
    Decimal: st.decimals(-(10**9), 10**9, places=12),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value that a field with this type may hold."""
    if hint is Stop:
        return st.builds(Stop, st.sampled_from(list(STOP_CLASSES)), json_objects)
    if hint is Prices:
        meters = st.builds(Meter, *[st.decimals(0, 99, places=6)] * 5)
        return st.builds(Prices, st.tuples(meters), st.text(max_size=5), st.text(max_size=5))
    if dataclasses.is_dataclass(hint):
        fields = {name: values_of(of) for name, of in typing.get_type_hints(hint).items()}
        return st.builds(hint, **fields)  # type: ignore[arg-type]
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return st.sampled_from(parts)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([st.none() if part is type(None) else values_of(part) for part in parts])
    if origin is tuple:
        return st.lists(values_of(parts[0]), max_size=2).map(tuple)
    if hint in SIMPLE:
        return SIMPLE[hint]
    return json_objects


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@given(st.data())
def test_every_event_comes_back_as_it_was(kind, data):
    event = data.draw(values_of(kind))
    line = encode_event(event)
    assert b"\n" not in line
    assert decode_event(line) == event
    assert decode_event(line.decode()) == event


def test_every_event_names_its_kind_and_version_first():
    assert list(to_json(Said(0.0, "hi")))[:2] == ["kind", "version"]
    assert json.loads(encode_event(Said(0.5, "hi"))) == {
        "kind": "Said",
        "version": VERSION,
        "at": 0.5,
        "text": "hi",
        "steering": False,
    }


def test_what_the_harness_does_not_know_in_a_block_is_kept():
    reply = Reply(({"type": "brand_new", "x": {"z": 1, "a": [None]}},), "end_turn", {"new_counter": 1})
    line = encode_event(Received(0.0, reply))
    assert b'"x":{"z":1,"a":[null]}' in line
    assert decode_event(line) == Received(0.0, reply)


def test_tuples_and_nested_records_come_back_as_such():
    event = started((FakeTool("a"),), stop_sequences=("x",), messages=({"role": "user", "content": "hi"},))
    again = decode_event(encode_event(event))
    assert again == event
    assert isinstance(again.stop_sequences, tuple)
    assert again.tools[0].name == "a"


GOOD = to_json(Said(0.0, "hi"))
RECEIVED = to_json(Received(0.0, says("hi")))


@pytest.mark.parametrize(
    "record, complaint",
    [
        ({**GOOD, "version": VERSION + 1}, "version"),
        ({**GOOD, "version": None}, "version"),
        ({key: value for key, value in GOOD.items() if key != "version"}, "version"),
        ([1], "version"),
        ("text", "version"),
        ({**GOOD, "kind": "Sung"}, "kind: 'Sung' is unknown"),
        ({"version": VERSION, "at": 0.0}, "kind"),
        ({**GOOD, "at": None}, "at: expected the time"),
        ({**GOOD, "at": "noon"}, "at: expected the time"),
        ({**GOOD, "loud": True}, "unknown field 'loud'"),
        ({**RECEIVED, "reply": {**RECEIVED["reply"], "mood": 1}}, "Reply: unknown field 'mood'"),  # type: ignore[dict-item]
        ({"kind": "Said", "version": VERSION, "at": 0.0}, "Said: .*text"),
        ({**RECEIVED, "reply": "text"}, "Reply: expected an object"),
        (
            {"kind": "StopRequested", "version": VERSION, "at": 0.0, "stop": {"kind": "tired"}},
            "no way to stop",
        ),
    ],
)
def test_a_record_that_is_not_known_whole_is_refused(record, complaint):
    with pytest.raises(ValueError, match=complaint):
        decode_event(json.dumps(record))


@pytest.mark.parametrize(
    "values",
    [
        {"content": ("text",)},
        {"stop_reason": 7},
        {"stop_sequence": ["END"]},
        {"usage": [1]},
        {"stop_details": "x"},
        {"id": 1},
        {"model": b"m"},
    ],
)
def test_a_reply_of_the_wrong_types_is_refused_where_it_is_made(values):
    with pytest.raises(TypeError, match="expected"):
        Reply(**{"content": (), "stop_reason": None, **values})
    record = {**RECEIVED, "reply": {**RECEIVED["reply"], **values}}  # type: ignore[dict-item]
    if values != {"model": b"m"}:
        with pytest.raises(ValueError, match="Reply: "):
            decode_event(json.dumps(record))


def test_a_line_that_is_no_json_is_refused():
    with pytest.raises(ValueError, match="Expecting"):
        decode_event(b'{"kind": "Said"')


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_fault_cannot_ask_for_a_wait_that_is_no_wait(seconds):
    with pytest.raises(ValueError, match="retry_after"):
        Fault("overloaded", "busy", again=True, retry_after=seconds)


def test_a_record_of_version_1_is_still_read():
    line = b'{"kind":"Sent","version":1,"at":0.0,"attempt":1,"max_tokens":5,"digest":"d"}'
    assert decode_event(line) == Sent(0.0, 1, 5, "d")
    begun = {**to_json(Started(0.0, "r", "m", 1, 1)), "version": 1}
    for name in ("prices", "cache"):
        del begun[name]
    assert decode_event(json.dumps(begun)) == Started(0.0, "r", "m", 1, 1)


def test_a_record_of_version_3_is_refused():
    with pytest.raises(ValueError, match="expected a record of version 1 to 2"):
        decode_event(json.dumps({**GOOD, "version": 3}))


MONEY = Decimal("0.054399000001")


@pytest.mark.parametrize(
    "event",
    [
        Sent(0.0, 1, 5, "d", Reserve(10, 5, MONEY)),
        TokensCounted(0.0, 7),
        TokensCounted(0.0, None),
        BudgetsRead(0.0, (Left("team", cost=MONEY, limit=Decimal(50)), Left("", tokens=4))),
        ChildSent(0.0, "r", 9, MONEY),
        ChildSettled(0.0, "r", Usage(1, 2), MONEY, 3, Decimal("0.01")),
        CallWaits(0.0, "c", "r"),
        Resumed(0.0, prices=Prices((Meter(*(MONEY,) * 5), Meter(*(Decimal(2),) * 5, above=9)), "x", "y")),
    ],
    ids=lambda event: type(event).__name__,
)
def test_amounts_of_money_come_back_to_the_last_digit(event):
    again = decode_event(encode_event(event))
    assert again == event
    assert repr(again) == repr(event)


def test_a_number_that_is_none_is_refused():
    line = encode_event(Started(0.0, "r", "m", 1, 1, prices=Prices((Meter(1, 2, 3, 4, Decimal("0.5")),))))
    event = decode_event(line)
    assert isinstance(event, Started)
    assert event.prices is not None
    assert event.prices.tiers[0].cache_write_1h == Decimal("0.5")
    with pytest.raises(ValueError, match="expected a decimal number, got 'half'"):
        decode_event(line.replace(b'"0.5"', b'"half"'))
