"""The same events give the same requests, byte for byte, and the same end: whether a recorded run still does.

The requests themselves are not in the journal, only their digests. So where one differs, what is new in
it since the last request that was the same is what tells why.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from brida.core.events import Answered, Closing, Event, Sent, Started, Stopped
from brida.core.request import Head, Request
from brida.core.state import State, fold
from brida.core.stops import Stop
from brida.core.turn import Phase


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A request that is not the one that was sent. ``seq`` is the number of its event.

    ``messages``: those of the request made now that are new since the last one that was the same.
    """

    seq: int
    recorded: str
    made: str
    max_tokens: int
    messages: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class OtherEnd:
    """An end that is not the one that the last reply led to. ``seq`` is the number of its event."""

    seq: int
    recorded: Stop
    made: Stop


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay found: how many requests were the same, and the first thing that was not."""

    same: int
    difference: Mismatch | OtherEnd | None = None

    @property
    def holds(self) -> bool:
        """Whether every request was the same, and every end that follows from a reply."""
        return self.difference is None


def replay(events: Sequence[Event]) -> Replayed:
    """Feeds the events to the core and compares every request and end.

    Raises ``ValueError`` where these are no events of a run.
    """
    if not events or not isinstance(events[0], Started):
        raise ValueError("events: a run begins with Started")
    state, same, known = State(events[0]), 0, 0
    for seq, event in enumerate(events[1:], 2):
        match event:
            case Sent() if (made := _digest(state, event)) != event.digest:
                new = _messages(state)[len(_messages(fold(events[:known]))) if known else 0 :]
                return Replayed(same, Mismatch(seq, event.digest, made, event.max_tokens, tuple(new)))
            case Sent():
                same, known = same + 1, seq
            case Stopped() | Closing() if state.ending not in (None, event.stop):
                return Replayed(same, OtherEnd(seq, event.stop, state.ending))
            case _:
                pass
        state.apply(event)
    return Replayed(same)


def _messages(state: State) -> list[object]:
    return cast("list[object]", json.loads(state.history.encoded()))


def _digest(state: State, sent: Sent) -> str:
    head = Head.of(state.started, closing=True) if state.closing else state.head
    return Request.digest(head, sent.max_tokens, state.history.digest())


# -- forks


def fork(events: Sequence[Event], at: int, run_id: str) -> tuple[Event, ...]:
    """The first ``at`` events as those of a run of its own.

    What was allowed for the session is not allowed in the fork, and it belongs to no other run. Raises
    ``ValueError`` where something is under way there: see :func:`places_to_fork`.
    """
    if at not in places_to_fork(events):
        raise ValueError(f"at: event {at} is no place to fork from")
    begun = cast("Started", events[0])
    started = replace(begun, run_id=run_id, forked_from=f"{begun.run_id}:{at}", parent=None, parent_call=None)
    return (started, *(_of_a_fork(event) for event in events[1:at]))


def _of_a_fork(event: Event) -> Event:
    return replace(event, session=False) if isinstance(event, Answered) else event


def places_to_fork(events: Iterable[Event]) -> tuple[int, ...]:
    """The numbers of the events after which nothing is under way: no request, and no call."""
    state: State | None = None
    places = []
    for seq, event in enumerate(events, 1):
        if state is None:
            state = State(cast("Started", event))
        else:
            state.apply(event)
        begun = any(call.begun and not call.done for call in state.calls.values())
        if seq > 1 and state.phase is not Phase.IN_FLIGHT and not (begun and state.phase is Phase.TURN):
            places.append(seq)
    return tuple(places)
