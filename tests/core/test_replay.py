# mypy: disable-error-code="union-attr, attr-defined, index"
"""The same events give the same requests; and a run can be forked where nothing is under way."""

from dataclasses import replace

import pytest

from brida.core.events import (
    Answered,
    Asked,
    CallFinished,
    CallStarted,
    Closing,
    Received,
    Resumed,
    Said,
    Sent,
    Started,
    Stopped,
    StopRequested,
)
from brida.core.limits import Limits
from brida.core.replay import OtherEnd, fork, places_to_fork, replay
from brida.core.state import fold
from brida.core.stops import Stop
from support.interruptions import during
from support.loop import FakeTool, Simulation, says

READ = FakeTool("read")
WRITE = FakeTool("write", impact="high")


REPLIES = (says(("c0", "read", {})), says("done"))


def told(*tools, replies=REPLIES, **more):
    """The events of a whole run."""
    run = Simulation(tools or (READ,), **more)
    run.run(replies)
    return run.events


def place_of(events, kind, *, number=1):
    """The number of the event of this kind."""
    return [place for place, event in enumerate(events, 1) if isinstance(event, kind)][number - 1]


def changed(events, kind, *, number=1, **changes):
    """The same events, but for one."""
    place = place_of(events, kind, number=number) - 1
    return [*events[:place], replace(events[place], **changes), *events[place + 1 :]]


# -- replay


def test_a_run_replays():
    found = replay(told())
    assert (found.holds, found.same, found.difference) == (True, 2, None)


def test_a_closing_reply_replays():
    events = told(
        replies=(says(("c0", "read", {})), says("so far")), limits=Limits(max_turns=0, closing_reply=9)
    )
    assert any(isinstance(event, Closing) for event in events)
    assert replay(events).same == 2


def test_the_beginning_of_a_run_replays():
    events = told()
    assert [replay(events[:count]).holds for count in range(1, len(events) + 1)] == [True] * len(events)


@pytest.mark.parametrize(
    "kind, changes",
    [
        (Started, {"system": "be brief"}),
        (Started, {"model": "n"}),
        (Said, {"text": "another task"}),
        (CallFinished, {"content": "something else"}),
        (CallFinished, {"outcome": "failed"}),
        (Sent, {"max_tokens": 7}),
        (Sent, {"digest": "0" * 64}),
    ],
)
def test_whatever_changes_a_request_is_found(kind, changes):
    assert not replay(changed(told(), kind, **changes)).holds


def test_a_difference_names_its_event_both_digests_and_what_is_new_in_the_request():
    events = told()
    found = replay(changed(events, CallFinished, content="something else"))
    assert found.same == 1
    assert found.difference is not None
    assert found.difference.seq == place_of(events, Sent, number=2)
    assert found.difference.recorded == events[found.difference.seq - 1].digest
    assert found.difference.made != found.difference.recorded
    assert found.difference.max_tokens == 100
    assert [message["role"] for message in found.difference.messages] == ["assistant", "user"]
    assert found.difference.messages[1]["content"][0]["content"] == "something else"


def test_a_difference_in_the_first_request_shows_all_of_it():
    found = replay(changed(told(), Said, text="another task"))
    assert (found.same, len(found.difference.messages)) == (0, 1)


@pytest.mark.parametrize("events", [(), (Said(1.0, "task"),)], ids=["none", "no beginning"])
def test_what_does_not_begin_like_a_run_cannot_be_replayed(events):
    with pytest.raises(ValueError, match="a run begins with Started"):
        replay(events)


@pytest.mark.parametrize("kind", [Started, Stopped], ids=["a second beginning", "a second end"])
def test_a_run_that_cannot_have_happened_cannot_be_replayed(kind):
    events = told()
    place = place_of(events, kind)
    with pytest.raises(ValueError, match="cannot follow here"):
        replay([*events[:place], *events[place - 1 :]])


def test_an_end_that_its_last_reply_does_not_lead_to_is_found():
    events = told()
    found = replay(changed(events, Stopped, stop=Stop("refused")))
    assert (found.holds, found.same) == (False, 2)
    assert found.difference == OtherEnd(len(events), recorded=Stop("refused"), made=Stop("completed"))


def test_a_closing_reply_after_which_the_run_ends_otherwise_is_found():
    events = told(
        replies=(says(("c0", "read", {})), says("so far")), limits=Limits(max_turns=0, closing_reply=9)
    )
    found = replay(changed(events, Stopped, stop=Stop("max_calls")))
    assert isinstance(found.difference, OtherEnd)
    assert (found.difference.made.kind, found.difference.recorded.kind) == ("max_turns", "max_calls")


def test_a_closing_reply_that_was_asked_for_after_the_end_is_found():
    events = told()
    asked = Closing(events[-1].at, Stop("max_turns"), (), "what did you find?")
    found = replay([*events[:-1], asked])
    assert found.difference == OtherEnd(len(events), recorded=Stop("max_turns"), made=Stop("completed"))


def test_an_end_that_comes_from_outside_is_as_it_was_recorded():
    run = during(WRITE)
    run.wake()
    run.learn(StopRequested(0, Stop("interrupted")))
    run._carry_on(lambda body: says("never"))
    assert replay(run.events).holds


# -- forks


def test_a_fork_is_a_run_of_its_own_with_the_same_beginning():
    events = told()
    at = place_of(events, CallFinished)
    made = fork(events, at, "other")
    assert (made[0].run_id, made[0].forked_from) == ("other", f"r:{at}")
    assert list(made[1:]) == events[1:at]


def test_a_fork_goes_on_to_an_end():
    events = told()
    run = Simulation((READ,)).in_a_new_process(list(fork(events, place_of(events, CallFinished), "other")))
    assert run.resume([says("another end")]).kind == "completed"
    assert replay(run.events).holds


def test_a_fork_of_a_whole_run_goes_on_with_a_text():
    events = told()
    run = Simulation((READ,)).in_a_new_process(list(fork(events, len(events), "other")))
    assert run.resume([says("more")], "and then?").kind == "completed"


def test_what_was_allowed_for_the_session_is_not_allowed_in_a_fork():
    events = told(
        WRITE,
        replies=(says(("c0", "write", {})), says("done")),
        answer=lambda question: (True, True, ""),
    )
    made = fork(events, len(events), "other")
    assert fold(events).session_allows == {"write"}
    assert fold(made).session_allows == frozenset()
    assert [event.allow for event in made if isinstance(event, Answered)] == [True]


def test_nothing_is_forked_while_a_request_or_a_call_is_under_way():
    events = told()
    kinds = [type(events[place - 1]) for place in places_to_fork(events)]
    assert Sent not in kinds
    assert CallStarted not in kinds
    assert {Said, Received, CallFinished, Stopped} <= {*kinds}


def test_a_run_without_anything_said_is_no_place_to_fork_from():
    assert places_to_fork(told())[0] == 2


def test_a_place_between_the_results_of_calls_that_run_together_is_none():
    events = told(replies=(says(("c0", "read", {}), ("c1", "read", {"p": 1})), says("done")))
    places = places_to_fork(events)
    assert place_of(events, CallFinished) not in places
    assert place_of(events, CallFinished, number=2) in places


def test_a_place_between_two_calls_that_run_one_after_the_other_is_one():
    events = told(WRITE, replies=(says(("c0", "write", {}), ("c1", "write", {"p": 1})), says("done")))
    assert place_of(events, CallFinished) in places_to_fork(events)


def test_a_place_where_a_person_is_asked_is_one():
    events = told(WRITE, replies=(says(("c0", "write", {})), says("done")))
    assert place_of(events, Asked) in places_to_fork(events)


def test_where_nobody_knows_what_became_of_a_call_is_no_place():
    run = during(WRITE, settings={"on_ask": "park", "yes_to": frozenset({"write"})})
    assert run.resume().kind == "waiting"
    assert place_of(run.events, Resumed) not in places_to_fork(run.events)
    assert len(run.events) not in places_to_fork(run.events)


def test_the_end_of_a_run_is_a_place_though_the_outcome_of_a_call_stayed_unknown():
    run = during(WRITE)
    run.wake()
    run.learn(StopRequested(0, Stop("interrupted")))
    run._carry_on(lambda body: says("never"))
    assert len(run.events) in places_to_fork(run.events)
    other = run.in_a_new_process(list(fork(run.events, len(run.events), "other")))
    assert other.resume([says("done")]).kind == "completed"


@pytest.mark.parametrize("kind", [Sent, CallStarted])
def test_another_place_is_refused(kind):
    events = told()
    with pytest.raises(ValueError, match="is no place to fork from"):
        fork(events, place_of(events, kind), "other")


@pytest.mark.parametrize("at", [0, 1, 1_000])
def test_a_place_outside_the_run_is_refused(at):
    with pytest.raises(ValueError, match="is no place to fork from"):
        fork(told(), at, "other")
