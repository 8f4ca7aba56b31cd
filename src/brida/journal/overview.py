"""The row of a run in the table of runs: what a person wants to see of it, made from its events."""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from brida.core.events import Event, Resumed, Said, Started, Stopped
from brida.core.state import State

MOST: Final = 2**62
"""What the table of runs can hold."""

TASK_SHOWN: Final = 200
"""Characters of a run's first text that the table of runs holds."""


def learn(
    connection: sqlite3.Connection, run_id: str, events: Sequence[Event], last_seq: int, state: State
) -> None:
    """What the events say of the run, and what the state counts. ``last_seq``: the last event's number."""

    def note(assignments: str, *values: object) -> None:
        connection.execute(f"UPDATE runs SET {assignments} WHERE run_id = ?", (*values, run_id))

    for event in events:
        match event:
            case Started():
                connection.execute(
                    "INSERT INTO runs (run_id, created, updated, model, last_seq) VALUES (?, ?, ?, ?, 0)",
                    (run_id, event.at, event.at, storable(event.model)),
                )
            case Said():
                note("task = CASE task WHEN '' THEN ? ELSE task END", storable(event.text[:TASK_SHOWN]))
            case Stopped():
                note("stop = ?", event.stop.kind)
            case Resumed():
                note("stop = NULL")
            case _:
                pass
    if events:
        counts = [max(-MOST, min(one, MOST)) for one in (state.turns, state.requests, state.usage.total)]
        note(
            "updated = ?, last_seq = ?, turns = ?, requests = ?, tokens = ?", events[-1].at, last_seq, *counts
        )


def as_far_as_they_fold(events: Sequence[Event]) -> State | None:
    """The state after the longest beginning of ``events`` that makes a run; None where there is none."""
    if not events or not isinstance(events[0], Started):
        return None
    state = State(events[0])
    with suppress(ValueError, KeyError):
        for event in events[1:]:
            state.apply(event)
    return state


def storable(text: str) -> str:
    """``text`` as SQLite can hold it: half surrogate pairs become question marks."""
    return text.encode(errors="replace").decode()
