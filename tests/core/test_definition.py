"""Whether an agent is still the one that a run began with."""

from dataclasses import replace

import pytest

from brida.core.definition import LONGEST, Difference, differences
from support.loop import FakeTool, started

READ = FakeTool("read")
WRITE = FakeTool("write", impact="high")
BEGUN = started((READ, WRITE), system="be brief")


def of_tool(tool, **changes):
    """The same run, with something of one tool changed."""
    tools = tuple(replace(one, **changes) if one.name == tool else one for one in BEGUN.tools)
    return replace(BEGUN, tools=tools)


def test_what_is_the_same_has_no_difference():
    assert differences(BEGUN, started((READ, WRITE), system="be brief")) == ()


@pytest.mark.parametrize("what, before, now", [("model", "m", "n"), ("system", "be brief", "be long")])
def test_another_model_or_system_prompt_matters(what, before, now):
    assert differences(BEGUN, replace(BEGUN, **{what: now})) == (Difference(what, before, now),)


def test_a_system_prompt_that_is_gone_or_new_matters():
    assert differences(BEGUN, replace(BEGUN, system=None)) == (Difference("system", "be brief", "-"),)
    assert differences(replace(BEGUN, system=None), BEGUN) == (Difference("system", "-", "be brief"),)


def test_a_tool_that_is_gone_matters():
    assert differences(BEGUN, replace(BEGUN, tools=BEGUN.tools[:1])) == (
        Difference("tool write", "there", "gone"),
    )


def test_a_tool_that_was_added_does_not_matter():
    now = started((READ, WRITE, FakeTool("more", impact="high")), system="be brief")
    assert differences(BEGUN, now) == ()


def test_the_order_of_the_tools_does_not_matter():
    assert differences(BEGUN, replace(BEGUN, tools=BEGUN.tools[::-1])) == ()


@pytest.mark.parametrize("impact", ["idempotent", "high"])
def test_another_impact_matters(impact):
    assert differences(BEGUN, of_tool("read", impact=impact)) == (
        Difference("tool read: impact", "read", impact),
    )


def test_another_schema_matters():
    definition = {"name": "read", "input_schema": {"type": "object", "required": ["p"]}}
    (found,) = differences(BEGUN, of_tool("read", definition=definition))
    assert (found.what, found.before) == ("tool read: schema", '{"type":"object"}')
    assert '"required":["p"]' in found.now


def test_a_schema_that_is_gone_matters():
    (found,) = differences(BEGUN, of_tool("read", definition={"name": "read"}))
    assert (found.before, found.now) == ('{"type":"object"}', "null")


def test_another_description_does_not_matter():
    definition = {"name": "read", "input_schema": {"type": "object"}, "description": "Reads."}
    assert differences(BEGUN, of_tool("read", definition=definition)) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"max_tokens": 7, "max_tokens_ceiling": 8},
        {"language": "es"},
        {"settings": {"a": 1}},
        {"base_url": "http://127.0.0.1:1"},
        {"run_id": "other", "at": 9.0},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_nothing_else_matters(changes):
    assert differences(BEGUN, replace(BEGUN, **changes)) == ()


def test_every_difference_is_named_in_one_order():
    now = replace(of_tool("read", impact="high", definition={}), model="n", system=None)
    now = replace(now, tools=now.tools[:1])
    assert [one.what for one in differences(BEGUN, now)] == [
        "model",
        "system",
        "tool read: schema",
        "tool read: impact",
        "tool write",
    ]


def test_a_long_value_is_cut_where_it_is_shown():
    (exact,) = differences(BEGUN, replace(BEGUN, system="x" * LONGEST))
    (longer,) = differences(BEGUN, replace(BEGUN, system="x" * (LONGEST + 1)))
    assert (exact.now, longer.now) == ("x" * LONGEST, "x" * LONGEST + "...")
