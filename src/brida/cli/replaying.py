"""``brida replay`` and ``brida fork``: a recorded run, made again."""

import json
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from brida.cli.journal_option import events_of, journal_command, run_argument
from brida.cli.screen import Screen
from brida.core.stops import EXIT_CODES
from brida.errors import ConfigurationError, Damaged, NewerRecord
from brida.texts.catalogue import Catalogue

if TYPE_CHECKING:
    from brida.core.events import Event
    from brida.core.replay import Mismatch, OtherEnd
    from brida.core.stops import Stop
    from brida.journal.sqlite import SqliteJournal


def replay_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``replay``."""

    def run(journal: "SqliteJournal", runs: Sequence[str], **values: bool) -> int:
        ids = [row.run_id for row in journal.runs()] if values["all"] else [journal.find(one) for one in runs]
        if not ids and not values["all"]:
            raise ConfigurationError(say("name a run, or --all"))
        holds = [_holds(journal, run_id, say, screen) for run_id in ids]
        return 0 if all(holds) else EXIT_CODES["failed"]

    return journal_command(
        "replay",
        say,
        run,
        help=say("Feeds recorded runs to the loop again and compares every request, byte for byte."),
        params=[
            run_argument(say, many=True, required=False),
            click.Option(["--all"], is_flag=True, help=say("All runs of the journal.")),
        ],
    )


def _holds(journal: "SqliteJournal", run_id: str, say: Catalogue, screen: Screen) -> bool:
    from brida.core.replay import replay

    try:
        found = replay(events_of(journal, run_id))
    except (Damaged, NewerRecord, ValueError) as error:
        screen.line(say("{run_id}: {error}", run_id=run_id, error=error))
        return False
    if found.difference is not None:
        for line in _told(found.difference, say):
            screen.line(f"{run_id}: {line}")
        return False
    same = say.plural("{count} request", "{count} requests", found.same)
    screen.out(say("{run_id}: {requests}, all the same", run_id=run_id, requests=same) + "\n")
    return True


def _told(found: "Mismatch | OtherEnd", say: Catalogue) -> list[str]:
    from brida.core.replay import OtherEnd

    if isinstance(found, OtherEnd):
        recorded, made = (json.dumps(_end(stop), ensure_ascii=False) for stop in (found.recorded, found.made))
        return [
            say("event {seq}: the run ends otherwise than its replies say", seq=found.seq),
            say("recorded end {end}", end=recorded),
            say("end made now {end}", end=made),
        ]
    lines = [
        say("event {seq}: the request differs from the one that was sent", seq=found.seq),
        say("recorded digest {digest}", digest=found.recorded),
        say("digest made now {digest}", digest=found.made),
        say("new in it since the last request that was the same:"),
    ]
    return lines + [json.dumps(message, ensure_ascii=False) for message in found.messages]


def _end(stop: "Stop") -> dict[str, object]:
    return {"kind": stop.kind, "detail": dict(stop.detail)}


def fork_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``fork``."""

    def run(journal: "SqliteJournal", run: str, at: int | None) -> int:
        from brida.core.replay import fork, places_to_fork
        from brida.core.state import fold

        events = _whole_part(journal, journal.find(run), at)
        places = places_to_fork(events)
        place = (places[-1] if places else 0) if at is None else at
        if place not in places:
            raise ConfigurationError(_no_place(place, places, say))
        run_id = uuid.uuid4().hex
        made = fork(events, place, run_id)
        writer = journal.begin(run_id)
        try:
            writer.append(made, fold(made))
        finally:
            writer.release()
        screen.out(f"{run_id}\n")
        screen.line(say("brida resume {run_id} goes on from there", run_id=run_id))
        return 0

    return journal_command(
        "fork",
        say,
        run,
        help=say("Begins a run of its own with the first events of another."),
        params=[
            run_argument(say),
            click.Option(
                ["--at"],
                type=click.IntRange(min=1),
                metavar=say("EVENT"),
                help=say("The last event to take, as brida show numbers them; by default all."),
            ),
        ],
    )


def _whole_part(journal: "SqliteJournal", run_id: str, at: int | None) -> "tuple[Event, ...]":
    """The events of the run; those before its first damaged one where no more are to be taken."""
    try:
        return events_of(journal, run_id)
    except Damaged as error:
        if at is None or at > len(error.records):
            raise
        return tuple(record.event for record in error.records)


def _no_place(at: int, places: Sequence[int], say: Catalogue) -> str:
    before = max((place for place in places if place < at), default=None)
    after = min((place for place in places if place > at), default=None)
    nearest = ", ".join(str(place) for place in (before, after) if place is not None) or "-"
    return say(
        "--at: something is under way after event {at}; the nearest places are: {nearest}",
        at=at,
        nearest=nearest,
    )
