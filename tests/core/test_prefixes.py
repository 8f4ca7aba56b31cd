"""Any beginning of any run is one to go on from: drawn at random, cut everywhere, gone on with to an end.

:class:`Simulation` checks each request and each ending on its way. What a whole story must hold is counted
here a second time, from its events alone.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brida.core.codec import decode_event, encode_event
from brida.core.events import Sent
from brida.core.replay import replay
from brida.core.run import next_step
from brida.core.state import State, fold
from brida.core.stops import STOP_CLASSES
from brida.core.turn import Phase
from support.story import Story
from support.worlds import TOOLS, World, worlds

IMPACTS = {tool.name: tool.impact for tool in TOOLS}
NEVER = ("busy", "internal_error", "definition_changed", "journal_error")
"""Stops that the core has no part in."""

CRASHED_FOR = 1_000_000.0

few = settings(max_examples=30, deadline=None)


def check(world: World) -> None:
    """What the story of a run that has come to an end must hold, from its first event on."""
    run, limits = world.run, world.limits
    assert run.state.stop is not None
    assert run.state.stop.kind in STOP_CLASSES.keys() - {*NEVER, "waiting"}
    story = Story(run.events, IMPACTS)
    heard = {result["tool_use_id"]: result["content"] for result in run.results}
    assert story.done.items() <= heard.items(), "what was done is kept, byte for byte"
    assert run.state.requests <= limits.requests
    assert run.state.turns <= limits.max_turns
    attempts = [event.attempt for event in run.events if isinstance(event, Sent)]
    assert max(attempts, default=0) <= limits.max_attempts
    assert not any(world.policy.denies(tool) for tool, _ in run.ran), "deny never runs"
    assert run.state.elapsed < CRASHED_FOR, "nothing counts between a crash and going on"
    if run.state.stop.kind == "completed":
        assert not run.state.history.has_text_to_send, "whatever was said has been heard"
    assert replay(run.events).holds, "the same requests, byte for byte"


def goes_on_without_a_text(state: State) -> bool:
    """Whether there is something to do without a new text."""
    if state.stop is None:
        return state.phase is not Phase.READY or state.history.can_be_sent
    if state.stop.kind == "waiting":
        return True
    return state.stop.stop_class != "finished" and state.history.can_be_sent


def seen(state: State) -> dict[str, Any]:
    """All that a state knows, for comparing two."""
    values = {**vars(state), **{f"history {name}": value for name, value in vars(state.history).items()}}
    del values["history"]
    return values | {"history _hash": state.history._hash.hexdigest()}


# --- what must hold ---------------------------------------------------------------------------------------


def go_on_from_every_beginning(world: World, text: str | None, seed: int) -> None:
    world.play()
    events, ended = list(world.run.events), world.run.state.stop
    assert ended is not None
    for cut in range(1, len(events) + 1):
        world.crash(events[:cut], after=CRASHED_FOR)
        if text is None and not goes_on_without_a_text(world.run.state):
            continue
        world.play_on(text)
        check(world)
        again = list(world.run.events)
        world.crash(again[: cut + 1 + seed % (len(again) - cut)], after=0.0)
        if goes_on_without_a_text(world.run.state):
            world.play_on()
            check(world)


@pytest.mark.exhaustive
@few
@given(worlds, st.integers(0, 1_000))
def test_a_run_goes_on_from_every_beginning_of_its_events(world, seed):
    go_on_from_every_beginning(world, None, seed)


@pytest.mark.exhaustive
@few
@given(worlds, st.integers(0, 1_000))
def test_a_run_goes_on_from_every_beginning_of_its_events_with_a_new_text(world, seed):
    go_on_from_every_beginning(world, "and then?", seed)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(few, max_examples=1_500)
@given(worlds, st.integers(0, 1_000), st.booleans())
def test_many_runs_go_on_from_every_beginning_of_their_events(world, seed, with_text):
    go_on_from_every_beginning(world, "and then?" if with_text else None, seed)


@few
@given(worlds)
def test_what_a_beginning_of_a_run_gives_is_always_the_same(world):
    world.play()
    lines = [encode_event(event) for event in world.run.events]
    state = State(world.run.events[0])
    for count in range(1, len(lines) + 1):
        if count > 1:
            state.apply(decode_event(lines[count - 1]))
        again = fold(decode_event(line) for line in lines[:count])
        assert seen(again) == seen(state) == seen(state.copy())
        if state.stop is None and state.phase is not Phase.IN_FLIGHT:
            assert next_step(again, world.run.env) == next_step(state, world.run.env)


@settings(max_examples=100, deadline=None)
@given(worlds.filter(lambda world: world.on_ask == "park"))
def test_a_run_that_parks_again_and_again_comes_to_an_end(world):
    world.play()
    if world.run.state.stop.kind == "waiting":
        world.answer_what_waits()
        world.crash(world.run.events)
        world.play_on()
    check(world)
