"""The table: every stop reason with every kind of blocks, and how blocks are told apart."""

import itertools

import pytest

from brida.core.transitions import ANY, TABLE, UNKNOWN, Action, classify, is_blank_text, look_up, text_of

RUN, REPEAT, GROW, RESUME, END = Action
DESIGN: dict[str, dict[str, tuple]] = {
    "tool_use": {
        "calls": (RUN, True, ""),
        "bad calls": (REPEAT, False, "malformed_reply"),
        "text": (REPEAT, False, "malformed_reply"),
        "other": (REPEAT, False, "malformed_reply"),
        "empty": (REPEAT, False, "malformed_reply"),
    },
    "end_turn": {
        "calls": (END, True, "malformed_reply"),
        "bad calls": (END, False, "malformed_reply"),
        "text": (END, True, "completed"),
        "other": (END, False, "empty_reply"),
        "empty": (END, False, "empty_reply"),
    },
    "stop_sequence": {
        "calls": (END, True, "malformed_reply"),
        "bad calls": (END, False, "malformed_reply"),
        "text": (END, True, "stop_sequence"),
        "other": (END, True, "stop_sequence"),
        "empty": (END, False, "stop_sequence"),
    },
    "max_tokens": dict.fromkeys(ANY, (GROW, False, "truncated")),
    "pause_turn": {
        "calls": (REPEAT, False, "malformed_reply"),
        "bad calls": (REPEAT, False, "malformed_reply"),
        "text": (RESUME, True, "max_pauses"),
        "other": (RESUME, True, "max_pauses"),
        "empty": (REPEAT, False, "malformed_reply"),
    },
    "refusal": dict.fromkeys(ANY, (END, False, "refused")),
    "model_context_window_exceeded": dict.fromkeys(ANY, (END, False, "context_window_exceeded")),
}
DESIGN["compaction"] = DESIGN["pause_turn"]


@pytest.mark.parametrize("reason, kind", list(itertools.product(DESIGN, ANY)))
def test_every_stop_reason_and_kind_of_blocks_does_what_the_design_says(reason, kind):
    row = look_up(reason, kind)
    assert (row.action, row.keep, row.stop) == DESIGN[reason][kind]


@pytest.mark.parametrize("reason", [None, "", "brand_new", "END_TURN", "tool_use "])
@pytest.mark.parametrize("kind", ANY)
def test_what_no_line_names_stops_and_keeps_nothing(reason, kind):
    assert look_up(reason, kind) is UNKNOWN
    assert (UNKNOWN.action, UNKNOWN.keep, UNKNOWN.stop) == (END, False, "unknown_stop_reason")


def test_no_pair_stands_in_two_lines():
    pairs = [pair for row in TABLE for pair in itertools.product(row.stop_reasons, row.kinds)]
    assert len(pairs) == len(set(pairs)) == len(DESIGN) * len(ANY)


# --- kinds of blocks ------------------------------------------------------------------------------------

DEEP: dict = {}
for _ in range(100_000):
    DEEP = {"a": DEEP}


def text(words):
    return {"type": "text", "text": words}


def call(call_id="a", **more):
    return {"type": "tool_use", "id": call_id, "name": "t", "input": {}, **more}


def without(name):
    return {key: value for key, value in call().items() if key != name}


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
SEARCH = {"type": "server_tool_use", "id": "a", "name": "web_search", "input": {}}
ODD_BLOCKS = [{"type": "brand_new"}, {}, {"type": None}, {"type": ["tool_use"]}]
BAD_CALLS = {
    "no id": without("id"),
    "an empty id": call(""),
    "an id with a space": call("a b"),
    "an id with a line's end": call("a\n"),
    "an id of other letters": call("é"),
    "an id that is no text": call(7),
    "an id used before": call("used"),
    "no name": without("name"),
    "an empty name": call(name=""),
    "a name that no tool may have": call(name="a.b"),
    "a name that is too long": call(name="n" * 129),
    "no input": without("input"),
    "an input that is no object": call(input="{}"),
    "a list for an input": call(input=[]),
    "no input but null": call(input=None),
    "a number that JSON does not have": call(input={"a": float("nan")}),
    "an input nested without end": call(input=DEEP),
}


@pytest.mark.parametrize("bad", BAD_CALLS.values(), ids=BAD_CALLS)
def test_one_bad_call_makes_all_calls_of_the_reply_bad(bad):
    for content in ([bad], [call("good"), bad], [bad, text("so"), call("good")]):
        assert classify(content, {"used"}) == ("bad calls", ())


def test_two_calls_with_one_id_are_bad():
    assert classify([call("a"), call("a", name="other")], ()) == ("bad calls", ())


def test_good_calls_are_read_in_their_order():
    content = [THOUGHT, call("b", input={"y": 1, "x": 2}), text("so"), call("A-_9", name="n" * 128)]
    kind, calls = classify(content, {"used"})
    assert kind == "calls"
    assert [(c.id, c.tool, c.arguments) for c in calls] == [
        ("b", "t", {"y": 1, "x": 2}),
        ("A-_9", "n" * 128, {}),
    ]
    assert calls[0].canonical == '{"x":2,"y":1}'
    assert len(calls[0].digest) == 64


@pytest.mark.parametrize(
    "content, kind",
    [
        ([], "empty"),
        ([text("")], "empty"),
        ([text(" \n\t\u2003")], "empty"),
        ([{"type": "text"}], "empty"),
        ([{"type": "text", "text": None}], "empty"),
        ([text("so")], "text"),
        ([text(" "), THOUGHT, text("so")], "text"),
        ([THOUGHT], "other"),
        ([THOUGHT, text(" ")], "other"),
        ([SEARCH], "other"),
        *[([block], "other") for block in ODD_BLOCKS],
    ],
)
def test_other_blocks_are_told_apart(content, kind):
    assert classify(content, ()) == (kind, ())


def test_only_a_text_block_can_be_blank():
    assert is_blank_text({"type": "text", "text": "\u00a0"})
    assert not is_blank_text({"type": "thinking", "text": ""})


@pytest.mark.parametrize(
    "blocks, joined",
    [
        ([text("a "), THOUGHT, text(" b")], "a  b"),
        ([text("a"), {"type": "text", "text": None}, text("")], "a"),
        ([text(" "), text("\n")], ""),
        ([THOUGHT, call()], ""),
    ],
)
def test_the_text_of_a_reply_is_its_text_blocks_as_they_were_written(blocks, joined):
    assert text_of(blocks) == joined
