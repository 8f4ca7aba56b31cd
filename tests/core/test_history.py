"""The message list: pairing by construction, nothing sent is edited, each message encoded once."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.core.encoding import encode
from brida.core.history import History
from support.validator import PrefixValidator


def text(words="hi"):
    return {"type": "text", "text": words}


def call(call_id, **more):
    return {"type": "tool_use", "id": call_id, "name": "t", "input": {}, **more}


def result(call_id, content="done", **more):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
MCP = {"type": "mcp_tool_use", "id": "s1", "name": "ask", "server_name": "x", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
FROM_CODE = {"caller": {"type": "code_execution_20260120", "tool_id": "s9"}}
DIRECT = {"caller": {"type": "direct"}}


def sent(history):
    return json.loads(history.encoded())


def begun(*blocks, calls=("a", "b")):
    """A history in which a task was sent, and these blocks came back, with two open calls."""
    history = History()
    history.add_text("task")
    history.seal()
    history.append_reply(blocks or [call("a"), call("b")], calls)
    return history


# --- results and texts ----------------------------------------------------------------------------------


def test_results_stand_in_the_order_of_the_calls_whatever_came_first_and_before_texts():
    history = begun()
    history.add_text("by the way")
    history.add_result("b", "2", is_error=True)
    history.add_result("a", "1", is_error=False)
    assert sent(history)[-1] == user(result("a", "1"), result("b", "2", is_error=True), text("by the way"))


def test_a_call_has_one_result_and_only_a_call_has_one():
    history = begun()
    history.add_result("a", "1", is_error=False)
    for call_id in ("a", "c"):
        with pytest.raises(ValueError, match=f"'{call_id}' is not open"):
            history.add_result(call_id, "2", is_error=False)


def test_nothing_is_sent_while_a_call_is_open():
    history = begun()
    history.add_result("b", "2", is_error=False)
    assert history.open_calls == ("a",)
    for attempt in (history.encoded, history.seal, history.digest, history.closed_messages):
        with pytest.raises(ValueError, match="calls without a result: a"):
            attempt()


def test_sealing_an_empty_message_adds_none():
    history = begun(text("x"), calls=())
    before = history.encoded()
    history.seal()
    assert history.encoded() == before


def test_texts_join_one_message_in_their_order():
    history = History()
    history.add_text("one")
    history.add_text("two")
    assert sent(history) == [user(text("one"), text("two"))]
    assert history.has_text_to_send
    history.seal()
    assert not history.has_text_to_send
    assert sent(history) == [user(text("one"), text("two"))]


def test_blank_texts_of_a_reply_are_dropped_and_all_else_is_kept_as_it_came():
    odd = {"type": "brand_new", "z": 1, "a": {"y": [None, 1.5]}}
    history = begun(text(" \n"), text(" x "), odd, text(""), calls=())
    assert history.encoded().endswith(encode(assistant(text(" x "), odd)) + b"]")


def test_used_ids_are_remembered():
    history = begun()
    assert history.used_ids == {"a", "b"}
    assert History([user(text()), assistant(call("c")), user(result("c"))]).used_ids == {"c"}


# --- bytes ----------------------------------------------------------------------------------------------


def test_the_digest_is_that_of_the_bytes_between_the_brackets_sealed_or_not():
    history = begun()
    history.add_result("a", "1", is_error=False)
    history.add_result("b", "2", is_error=False)
    expected = hashlib.sha256(history.encoded()[1:-1]).hexdigest()
    assert history.digest() == expected
    history.seal()
    assert history.digest() == expected
    assert History().digest() == hashlib.sha256(b"").hexdigest()


def test_the_size_is_that_of_what_was_sent():
    history = begun()
    assert history.size == len(encode([user(text("task")), assistant(call("a"), call("b"))])) - 2


def test_a_copy_goes_its_own_way():
    history = begun()
    other = history.copy()
    other.add_result("a", "1", is_error=False)
    other.add_result("b", "2", is_error=False)
    other.add_text("more")
    other.seal()
    other.append_reply([call("c")], ["c"])
    assert history.open_calls == ("a", "b")
    assert history.used_ids == {"a", "b"}
    assert not history.has_text_to_send
    history.add_result("a", "x", is_error=False)
    history.add_result("b", "y", is_error=False)
    assert sent(history)[-1] == user(result("a", "x"), result("b", "y"))
    assert history.digest() == hashlib.sha256(history.encoded()[1:-1]).hexdigest()


@given(st.lists(st.sampled_from(["text", "turn", "answer", "pause"]), max_size=12))
def test_what_was_sent_is_the_beginning_of_all_that_is_sent_later(script):
    history, before = History(), b"[]"
    history.add_text("task")
    for n, what in enumerate(script):
        if what == "text":
            history.add_text(f"text {n}")
            continue
        history.seal()
        assert history.encoded().startswith(before[:-1])
        before = history.encoded()
        match what:
            case "turn":
                history.append_reply([text("look"), call(f"a{n}")], [f"a{n}"])
                history.add_result(f"a{n}", "done", is_error=False)
            case "answer":
                history.append_reply([text("so")])
            case "pause":
                history.append_reply([text("wait")], paused=True)
        assert history.encoded() == encode(sent(history))
    assert PrefixValidator().extend(sent(history), paused=True) == []


# --- where a person's text must wait --------------------------------------------------------------------


@pytest.mark.parametrize(
    "blocks",
    [(SEARCH, call("a")), (MCP, call("a")), (call("a", **FROM_CODE),), (call("z"), call("a", **FROM_CODE))],
)
def test_a_text_waits_where_only_results_may_be_sent(blocks):
    ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    history = begun(*blocks, calls=ids)
    history.add_text("hello")
    for call_id in ids:
        history.add_result(call_id, "done", is_error=False)
    assert sent(history)[-1] == user(*map(result, ids))
    assert history.has_text_to_send
    history.seal()
    assert history.has_text_to_send
    history.append_reply([call("b")], ["b"])
    history.add_result("b", "done", is_error=False)
    assert sent(history)[-1] == user(result("b"), text("hello"))


@pytest.mark.parametrize(
    "blocks", [(SEARCH, FOUND, call("a")), (call("a", **DIRECT),), (call("a", caller="x"),)]
)
def test_a_text_does_not_wait_without_need(blocks):
    history = begun(*blocks, calls=["a"])
    history.add_text("hello")
    history.add_result("a", "done", is_error=False)
    assert sent(history)[-1] == user(result("a"), text("hello"))


def test_a_server_tool_that_a_pause_left_open_still_keeps_texts_waiting():
    history = begun(SEARCH, calls=())
    history.append_reply([SEARCH], paused=True)
    history.append_reply([call("a")], ["a"])
    history.add_text("hello")
    history.add_result("a", "done", is_error=False)
    assert sent(history)[-1] == user(result("a"))


def test_a_server_tool_that_was_resolved_after_a_pause_keeps_nothing_waiting():
    history = begun(text("x"), calls=())
    history.append_reply([SEARCH], paused=True)
    history.append_reply([FOUND, call("a")], ["a"])
    history.add_text("hello")
    history.add_result("a", "done", is_error=False)
    assert sent(history)[-1] == user(result("a"), text("hello"))


def test_what_an_earlier_turn_left_open_is_forgotten():
    history = begun(SEARCH, call("a"), calls=["a"])
    history.add_result("a", "done", is_error=False)
    history.seal()
    history.append_reply([call("b")], ["b"])
    history.add_text("hello")
    history.add_result("b", "done", is_error=False)
    assert sent(history)[-1] == user(result("b"), text("hello"))


def test_no_text_follows_a_paused_reply_and_none_is_lost():
    history = begun(call("a", **FROM_CODE), calls=["a"])
    history.add_text("one")
    history.add_result("a", "done", is_error=False)
    history.seal()
    history.append_reply([text("wait")], paused=True)
    history.add_text("two")
    assert sent(history)[-1] == assistant(text("wait"))
    history.append_reply([text("so")])
    assert sent(history)[-1] == user(text("one"), text("two"))


def test_a_text_that_comes_while_a_request_is_under_way_is_not_lost():
    history = begun(text("x"), calls=())
    history.add_text("one")
    history.append_reply([call("a", **FROM_CODE)], ["a"])
    history.add_text("two")
    history.add_result("a", "done", is_error=False)
    assert sent(history)[-1] == user(result("a"))
    history.seal()
    history.append_reply([text("so")])
    assert sent(history)[-1] == user(text("one"), text("two"))


# --- pauses ---------------------------------------------------------------------------------------------


def test_paused_replies_at_the_end_are_left_out_of_what_a_caller_goes_on_from():
    history = begun(text("x"), calls=())
    history.add_text("more")
    history.seal()
    history.append_reply([SEARCH], paused=True)
    history.append_reply([text("still")], paused=True)
    assert [m["role"] for m in sent(history)] == ["user", "assistant", "user", "assistant", "assistant"]
    assert history.closed_messages() == sent(history)[:3]
    history.append_reply([FOUND, text("so")])
    assert history.closed_messages() == sent(history)
    assert len(history.closed_messages()) == 6


def test_an_empty_history_has_no_messages():
    assert History().closed_messages() == []
    assert History().encoded() == b"[]"


# --- from earlier messages ------------------------------------------------------------------------------


def test_an_earlier_history_goes_on_where_it_ended():
    earlier = [user(text("task")), assistant(text("x"), call("a")), user(result("a"))]
    history = History(earlier)
    history.add_text("more")
    assert sent(history) == [*earlier[:2], user(result("a"), text("more"))]


def test_a_content_that_is_a_text_is_one_block():
    assert sent(History([{"role": "user", "content": "hi"}])) == [user(text("hi"))]


def test_blank_texts_of_an_earlier_history_are_dropped():
    assert sent(History([user(text(" "), text("hi"))])) == [user(text("hi"))]


def test_calls_that_nobody_answered_are_open():
    history = History([user(text()), assistant(call("a"), call("b"))])
    assert history.open_calls == ("a", "b")
    history = History([user(text()), assistant(call("a"), call("b")), user(result("b"))])
    assert history.open_calls == ("a",)
    history.add_result("a", "late", is_error=True)
    assert sent(history)[-1] == user(result("a", "late", is_error=True), result("b"))


def test_results_spread_over_two_messages_become_one():
    history = History(
        [
            user(text()),
            assistant(call("a"), call("b")),
            user(result("b")),
            user(result("a")),
            assistant(text("so")),
        ]
    )
    assert sent(history)[2] == user(result("a"), result("b"))
    assert len(sent(history)) == 4


def test_two_messages_of_a_person_in_a_row_are_taken():
    earlier = [user(text("one")), user(text("two")), assistant(text("so"))]
    assert sent(History(earlier)) == earlier


def test_a_text_after_the_results_of_code_waits():
    history = History([user(text()), assistant(call("a", **FROM_CODE)), user(result("a"))])
    history.add_text("more")
    assert sent(history)[-1] == user(result("a"))


def test_a_paused_turn_at_the_end_is_left_out():
    earlier = [user(text()), assistant(text("wait"), SEARCH)]
    history = History(earlier)
    history.add_text("never mind")
    assert sent(history) == [earlier[0], user(text("never mind"))]


def test_a_turn_of_server_tools_that_is_over_is_kept():
    earlier = [user(text()), assistant(SEARCH, FOUND, text("so"))]
    assert sent(History(earlier)) == earlier


@pytest.mark.parametrize(
    "messages, complaint",
    [
        ([{"content": "hi"}], r"messages\[0\].role: None is neither"),
        ([user(text()), {"role": "system", "content": "hi"}], r"messages\[1\].role: 'system'"),
        ([assistant(text())], r"messages\[0\]: expected a user message"),
        ([user(text()), assistant(call("a")), assistant(text())], r"messages\[2\]: expected a result for a"),
        (
            [user(text()), assistant(call("a"), call("b")), user(result("a")), assistant(text())],
            r"messages\[3\]: expected a result for b",
        ),
        ([user(text()), assistant(call("a"), call("a"))], r"messages\[1\]: tool_use ids must be unique"),
        (
            [user(text()), assistant(call("a")), user(result("a")), assistant(call("a"))],
            r"messages\[3\]: tool_use ids must be unique",
        ),
        ([user(text(), result("a"))], r"messages\[0\]: the result for 'a' answers no open call"),
        (
            [user(text()), assistant(call("a")), user(result("a"), result("a"))],
            r"messages\[2\]: the result for 'a' answers no open call",
        ),
        ([user(text()), assistant(call("a")), user({"type": "tool_result"})], r"messages\[2\]: .* None"),
        ([user()], r"messages\[0\].content: expected a block that is not blank"),
        ([user(text()), assistant(text(" "))], r"messages\[1\].content: expected a block"),
        ([{"role": "user", "content": " "}], r"messages\[0\].content: expected a block"),
        (["hi"], r"messages\[0\]: expected an object, got str"),
        ([user({"text": "hi"})], r"messages\[0\].content: a block of type None cannot stand here"),
        ([user(call("a"))], r"messages\[0\].content: a block of type 'tool_use' cannot stand here"),
        ([user(text()), assistant(result("a"))], r"messages\[1\].content: a block of type 'tool_result'"),
        ([user(text()), assistant(call("a b"))], r"messages\[1\].content: a tool_use needs a valid id"),
        ([user(text()), assistant(call("a", name=None))], r"messages\[1\].content: a tool_use needs"),
        ([{"role": "user"}], r"messages\[0\].content: expected a text or a list of blocks, got None"),
        ([{"role": "user", "content": ["hi"]}], r"messages\[0\].content: expected a text or a list"),
    ],
)
def test_an_earlier_history_that_the_api_would_not_take_is_refused_with_the_place(messages, complaint):
    with pytest.raises(ValueError, match=complaint):
        History(messages)


def test_a_paused_turn_can_be_left_out_and_what_waited_behind_it_is_sent():
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    history = History()
    history.add_text("find it")
    history.seal()
    plain = history.copy()
    history.append_reply([search], paused=True)
    history.append_reply([search], paused=True)
    history.add_text("by the way")
    assert not history.takes_text
    history.leave_out_pause()
    history.add_text("never mind")
    plain.add_text("by the way")
    plain.add_text("never mind")
    assert history.takes_text
    assert (history.encoded(), history.digest()) == (plain.encoded(), plain.digest())


def test_where_a_pause_is_left_out_after_results_a_text_still_waits_for_the_server_tool():
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    history = History()
    history.add_text("find it")
    history.seal()
    history.append_reply([search, {"type": "tool_use", "id": "c", "name": "see", "input": {}}], ["c"])
    history.add_result("c", "seen", is_error=False)
    history.seal()
    before = history.encoded()
    history.append_reply([{"type": "text", "text": "still searching"}], paused=True)
    history.leave_out_pause()
    history.add_text("never mind")
    assert not history.takes_text
    assert history.encoded() == before


def test_where_nothing_is_paused_nothing_is_left_out():
    history = History()
    history.add_text("hello")
    before = history.encoded()
    history.leave_out_pause()
    assert history.encoded() == before


def test_a_result_may_be_blocks():
    history = History()
    history.add_text("look")
    history.seal()
    history.append_reply([{"type": "tool_use", "id": "c", "name": "see", "input": {}}], ["c"])
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    history.add_result("c", (image,), is_error=False)
    assert json.loads(history.encoded())[-1]["content"][0]["content"] == [image]


def test_what_the_model_has_not_answered_can_be_sent():
    history = History()
    assert not history.can_be_sent, "nothing has been said"
    history.add_text("hi")
    assert history.can_be_sent
    history.seal()
    assert history.can_be_sent, "it was sent, and no reply came"
    history.append_reply([text("wait")], paused=True)
    assert history.can_be_sent, "a pause goes on by itself"
    history.append_reply([call("t1")], ["t1"])
    history.add_result("t1", "done", is_error=False)
    assert history.can_be_sent
    history.seal()
    history.append_reply([text("so")])
    assert not history.can_be_sent, "the model has said all"
    history.add_text("and then?")
    assert history.can_be_sent


def test_a_history_whose_pause_is_left_out_can_be_sent():
    history = History([user(text())])
    history.seal()
    history.append_reply([text("wait")], paused=True)
    history.leave_out_pause()
    assert history.can_be_sent


@pytest.mark.parametrize(
    "messages, can", [([user(text())], True), ([user(text()), assistant(text("so"))], False)]
)
def test_whether_an_earlier_history_can_be_sent_is_what_it_ends_with(messages, can):
    assert History(messages).can_be_sent is can
