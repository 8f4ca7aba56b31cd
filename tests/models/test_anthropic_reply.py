"""Replies put together from the events of a stream, without a server."""

import pytest

from brida.models.anthropic_reply import MalformedBodyError, ReplyAssembler, parse
from brida.models.base import Delta


def assemble(*blocks, stop_reason="end_turn", usage=(), start_usage=None):
    """The reply of these blocks, each a start and its deltas."""
    heard: list[Delta] = []
    assembler = ReplyAssembler(heard.append)
    message = {"type": "message", "content": [], "usage": start_usage, "container": {"id": "c"}}
    assembler.feed({"type": "message_start", "message": message})
    for index, (start, *deltas) in enumerate(blocks):
        assembler.feed({"type": "content_block_start", "index": index, "content_block": dict(start)})
        assembler.feed({"type": "ping"})
        for delta in deltas:
            assembler.feed({"type": "content_block_delta", "index": index, "delta": delta})
        assembler.feed({"type": "content_block_stop", "index": index})
    for counters in usage or (None,):
        delta = {"stop_reason": stop_reason, "stop_sequence": None}
        assembler.feed({"type": "message_delta", "delta": delta, "usage": counters})
    assert assembler.complete is False
    assembler.feed({"type": "message_stop"})
    assert assembler.complete is True
    return assembler.reply(), heard


CALL = {"type": "tool_use", "id": "t", "name": "read", "input": {}}


def pieces(*parts):
    return [{"type": "input_json_delta", "partial_json": part} for part in parts]


def test_thinking_its_signature_and_text_are_joined_piece_by_piece():
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = [{"type": "thinking_delta", "thinking": part} for part in ("let ", "me")]
    text = [{"type": "text_delta", "text": part} for part in ("a", "b")]
    reply, heard = assemble(
        (thinking, *deltas, {"type": "signature_delta", "signature": "c2ln"}),
        ({"type": "text", "text": ""}, *text),
    )
    assert reply.content == (
        {"type": "thinking", "thinking": "let me", "signature": "c2ln"},
        {"type": "text", "text": "ab"},
    )
    assert [(delta.kind, delta.text) for delta in heard] == [
        ("thinking", "let "),
        ("thinking", "me"),
        ("text", "a"),
        ("text", "b"),
    ]


def test_citations_and_compactions_arrive_whole():
    citations = [{"type": "citations_delta", "citation": {"n": number}} for number in (1, 2)]
    compaction = {"type": "compaction_delta", "content": "short", "encrypted_content": "x"}
    reply, _ = assemble(
        ({"type": "text", "text": "", "citations": None}, *citations),
        ({"type": "compaction", "content": None}, compaction),
    )
    assert reply.content[0]["citations"] == [{"n": 1}, {"n": 2}]
    assert reply.content[1] == {"type": "compaction", "content": "short", "encrypted_content": "x"}


def test_a_block_that_is_unknown_stays_as_it_came():
    strange = {"type": "strange", "deep": {"z": 1, "a": [None, True, 1.5]}}
    assert assemble((strange,))[0].content == (strange,)


@pytest.mark.parametrize(
    "start, parts, arguments",
    [
        ({}, [], {}),
        ({"a": 1}, [], {"a": 1}),
        ({}, [""], {}),
        ({}, ["", '{"a"', ": [1, ", "2]}"], {"a": [1, 2]}),
        ({}, ['{"a": "\\ud83d\\ude00"}'], {"a": "😀"}),
        ({}, ['{"a": 1}', " \n"], {"a": 1}),
    ],
)
def test_arguments_are_parsed_once_they_are_whole(start, parts, arguments):
    reply, _ = assemble(({**CALL, "input": start}, *pieces(*parts)), stop_reason="tool_use")
    assert reply.content[0]["input"] == arguments


BROKEN = {
    "cut": '{"a": 1',
    "a list": "[1]",
    "a number": "1",
    "null": "null",
    "NaN": '{"a": NaN}',
    "infinity": '{"a": -Infinity}',
    "too large": '{"a": 1e999}',
    "too long": '{"a": ' + "9" * 5000 + "}",
    "too deep": '{"a": ' + "[" * 201 + "]" * 201 + "}",
    "far too deep": "[" * 100_000,
    "two values": '{"a": 1}{"b": 2}',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("stop_reason", ["tool_use", "end_turn", "pause_turn", "stop_sequence"])
def test_broken_arguments_are_malformed_where_calls_should_be_whole(stop_reason, text):
    with pytest.raises(MalformedBodyError):
        assemble((CALL, *pieces(text)), stop_reason=stop_reason)


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("stop_reason", ["max_tokens", "refusal", "model_context_window_exceeded", None, "x"])
def test_broken_arguments_are_left_to_the_table_where_nothing_runs(stop_reason, text):
    reply, _ = assemble((CALL, *pieces(text)), stop_reason=stop_reason)
    assert (reply.stop_reason, reply.content[0]["input"]) == (stop_reason, {})


def test_counters_overwrite_and_are_never_erased():
    start = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5, "service_tier": "standard"}
    later = [{"output_tokens": 7}, {"output_tokens": 9, "input_tokens": None, "new": {"x": 1}}, None]
    reply, _ = assemble(({"type": "text", "text": "x"},), start_usage=start, usage=later)
    assert reply.usage == {**start, "output_tokens": 9, "new": {"x": 1}}


def test_a_reply_without_counters_has_none():
    assert assemble(({"type": "text", "text": "x"},))[0].usage is None


@pytest.mark.parametrize("text", ["NaN", "1e999", "9" * 5000, "[" * 201 + "]" * 201, "[" * 100_000, "", "{"])
def test_json_that_could_not_be_sent_again_is_refused(text):
    with pytest.raises(MalformedBodyError):
        parse(text)


def test_json_as_deep_as_allowed_is_read():
    assert parse("[" * 199 + "]" * 199)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_start", "index": 10**12, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_start", "index": "0", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_delta", "index": None, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_start", "message": {}},
        {"type": "message_delta", "delta": "end"},
    ],
    ids=range(8),
)
def test_an_event_that_fits_nothing_is_malformed(event):
    assembler = ReplyAssembler(print)
    assembler.feed({"type": "message_start", "message": {"type": "message", "content": []}})
    with pytest.raises(MalformedBodyError):
        assembler.feed(event)


TEXT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}
END = {"type": "content_block_stop", "index": 0}


@pytest.mark.parametrize("late", [DELTA, END], ids=["delta", "stop"])
def test_a_block_that_ended_takes_no_more(late):
    assembler = ReplyAssembler(print)
    for event in ({"type": "message_start", "message": {"type": "message", "content": []}}, TEXT, DELTA, END):
        assembler.feed(event)
    with pytest.raises(MalformedBodyError):
        assembler.feed(late)


def test_a_message_starts_empty():
    with pytest.raises(MalformedBodyError):
        ReplyAssembler(print).feed({"type": "message_start", "message": {"content": [{"type": "text"}]}})


@pytest.mark.parametrize("index", [False, 0.0])
def test_an_index_is_a_whole_number(index):
    assembler = ReplyAssembler(print)
    assembler.feed({"type": "message_start", "message": {"type": "message", "content": []}})
    with pytest.raises(MalformedBodyError):
        assembler.feed({**TEXT, "index": index})
