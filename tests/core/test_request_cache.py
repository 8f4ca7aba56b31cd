"""Marks for the prompt cache: on what stays the same alone, and never in a message."""

import itertools
import json
from dataclasses import replace

import pytest

from brida.core.events import Declaration
from brida.core.request import MARK, Head
from support.loop import FakeTool, Simulation, says, started

TOOLS = (FakeTool("a"), FakeTool("b"))
TTL = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def body(**fields):
    head = Head.of(started(TOOLS, **{"system": "be brief", "cache": True, **fields}))
    return head, json.loads(head.encoded + b"}")


def marks(value):
    return json.dumps(value).count('"cache_control"')


def test_the_last_tool_the_system_prompt_and_the_newest_message_are_marked():
    head, made = body()
    assert [marks(tool) for tool in made["tools"]] == [0, 1]
    assert made["system"] == [{"type": "text", "text": "be brief", **MARK}]
    assert made["cache_control"] == {"type": "ephemeral"}
    assert (head.cached, head.for_an_hour) == (True, False)


def test_without_the_cache_the_bytes_are_what_they_were():
    head, made = body(cache=False)
    assert marks(made) == 0
    assert made["system"] == "be brief"
    assert head.cached is False


@pytest.mark.parametrize("tools", [TOOLS, ()])
@pytest.mark.parametrize("system", ["x", None])
def test_what_is_not_there_is_not_marked(tools, system):
    head = Head.of(started(tools, system=system, cache=True))
    made = json.loads(head.encoded + b"}")
    assert marks(made) == 1 + bool(made.get("system")) + bool(made.get("tools"))


@pytest.mark.parametrize("given, left", [(0, 3), (1, 3), (2, 2), (3, 1), (4, 0), (9, 0)])
def test_there_are_never_more_marks_than_the_api_takes(given, left):
    blocks = [{"type": "text", "text": "x", **MARK} for _ in range(given)]
    messages = ({"role": "user", "content": blocks or "x"},)
    head, made = body(messages=messages)
    assert marks(made) == left
    assert head.cached
    assert given + left <= max(4, given)


def test_a_mark_of_ones_own_is_left_alone():
    head, made = body(extra=TTL)
    assert made["cache_control"] == TTL["cache_control"]
    assert head.for_an_hour
    own = Declaration("c", {"name": "c", "input_schema": {"type": "object"}, **MARK})
    assert Head.of(replace(started(), tools=(own,))).cached


def test_no_mark_ever_stands_in_a_message_and_nothing_sent_changes():
    run = Simulation((FakeTool("read"),), start={"cache": True, "system": "x"})
    run.run([*(says((f"c{n}", "read", {"p": n})) for n in range(3)), says("done")])
    sent = [json.dumps(made["messages"])[:-1] for made in run.bodies]
    assert not any("cache_control" in one for one in sent)
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(sent))
    assert len({json.dumps({**made, "messages": 0}) for made in run.bodies}) == 1
