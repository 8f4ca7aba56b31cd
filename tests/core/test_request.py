"""The body: its head encoded once, the messages as they are kept."""

import json

from brida.core.events import Started
from brida.core.request import RESERVED, Head, Request
from support.loop import FakeTool, started
from support.validator import problems

MESSAGES = '[{"role":"user","content":[{"type":"text","text":"olé"}]}]'.encode()


def body(started_: Started, **options):
    return Request(Head.of(started_), 100, MESSAGES).body(**{"stream": False, **options})


def test_the_smallest_body():
    assert body(started()) == b'{"model":"m","max_tokens":100,"messages":' + MESSAGES + b"}"


def test_a_streaming_body_says_so():
    assert json.loads(body(started(), stream=True)) == {**json.loads(body(started())), "stream": True}


def test_the_whole_body_is_valid():
    tools = (FakeTool("read"), FakeTool("write"))
    given = started(tools, system="be brief", stop_sequences=("END",), extra={"metadata": {"user_id": "u"}})
    made = json.loads(body(given))
    assert made == {
        "model": "m",
        "system": "be brief",
        "tools": [tool.declaration.definition for tool in tools],
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
        "max_tokens": 100,
        "messages": json.loads(MESSAGES),
    }
    assert problems(made) == []


def test_empty_parts_are_left_out():
    assert json.loads(body(started(system="", extra={}))).keys() == {"model", "max_tokens", "messages"}


def test_a_request_can_be_read_as_values():
    request = Request(Head.of(started()), 100, MESSAGES)
    assert request.as_dict() == json.loads(body(started()))


def test_the_loop_owns_what_it_writes_into_the_body():
    made = json.loads(body(started((FakeTool("a"),), system="s", stop_sequences=("x",)), stream=True))
    assert made.keys() <= set(RESERVED)
