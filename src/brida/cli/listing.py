"""``brida runs``, ``brida rm`` and ``brida gc``: what the journal holds, and forgetting it."""

import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from brida.cli.journal_option import journal_command, run_argument
from brida.cli.screen import Screen, somebody_is_there
from brida.errors import ConfigurationError
from brida.texts.catalogue import N_, Catalogue
from brida.texts.terminal import escape, shorten

if TYPE_CHECKING:
    from brida.journal.base import RunRow
    from brida.journal.sqlite import SqliteJournal

VERSION: Final = 1
SHORTEST: Final = 6
AGES: Final = {"h": 3_600, "d": 86_400, "w": 604_800}

WORKING = N_("at work")
UNFINISHED = N_("unfinished")


def runs_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``runs``."""

    def show(journal: "SqliteJournal", limit: int, **values: Any) -> int:
        rows = journal.runs()
        if values["json"]:
            screen.json({"version": VERSION, "runs": [as_object(row) for row in rows[:limit]]})
            return 0
        if not rows:
            screen.line(say("there are no runs in {path}", path=journal.path))
        for line in table(rows[:limit], short_ids(rows), say, screen.out_width):
            screen.out(line + "\n")
        if len(rows) > limit:
            screen.line(
                say("{shown} of {count} runs; --limit {count} shows all", shown=limit, count=len(rows))
            )
        return 0

    return journal_command(
        "runs",
        say,
        show,
        help=say("Lists the runs of the journal, the last one first."),
        params=[
            click.Option(["--limit"], type=click.IntRange(min=1), default=50, metavar=say("NUMBER")),
            click.Option(["--json"], is_flag=True, help=say("Print one JSON object on stdout.")),
        ],
    )


def rm_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``rm``."""

    def remove(journal: "SqliteJournal", runs: Sequence[str], yes: bool) -> int:
        ids = [journal.find(run) for run in runs]
        if not yes and not _confirmed(journal, ids, say, screen):
            raise ConfigurationError(say("nothing was removed; --yes removes without asking"))
        for run_id in dict.fromkeys(ids):
            journal.remove(run_id)
            screen.line(say("removed: {run_id}", run_id=run_id))
        return 0

    return journal_command(
        "rm",
        say,
        remove,
        help=say("Removes runs from the journal, for good."),
        params=[
            run_argument(say, many=True),
            click.Option(["--yes"], is_flag=True, help=say("Remove without asking.")),
        ],
    )


def gc_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``gc``."""

    def sweep(journal: "SqliteJournal", older_than: str, dry_run: bool) -> int:
        before = time.time() - _age(older_than, say)
        if dry_run:
            gone = [row.run_id for row in journal.runs() if row.is_over and row.updated < before]
        else:
            size = _size(journal)
            gone = journal.sweep(before=before)
            freed = max(0, size - _size(journal))
            screen.line(say("{size:,} bytes are free again", size=freed))
        for run_id in gone:
            screen.out(f"{run_id}\n")
        words = say.plural("{count} run", "{count} runs", len(gone))
        screen.line(
            say("would be removed: {runs}", runs=words) if dry_run else say("removed: {run_id}", run_id=words)
        )
        return 0

    return journal_command(
        "gc",
        say,
        sweep,
        help=say("Removes the runs that are over and old. What waits for a person or is unfinished stays."),
        params=[
            click.Option(
                ["--older-than"], default="30d", metavar="30d", help=say("Their age: hours, days or weeks.")
            ),
            click.Option(["--dry-run"], is_flag=True, help=say("Only say which.")),
        ],
    )


def as_object(row: "RunRow") -> dict[str, Any]:
    """A run as JSON has it."""
    return {**asdict(row), "state": state_of(row)}


def state_of(row: "RunRow") -> str:
    """Where the run stands, in one word: its stop, ``working`` or ``unfinished``."""
    return "working" if row.owner is not None else row.stop or "unfinished"


def table(rows: "Sequence[RunRow]", short: Mapping[str, str], say: Catalogue, width: int) -> list[str]:
    """The runs as lines, escaped, each no wider than ``width``. ``short``: what tells the ids apart."""
    words = {"working": say(WORKING), "unfinished": say(UNFINISHED)}
    cells = [
        (
            short[row.run_id],
            time.strftime("%Y-%m-%d %H:%M", time.localtime(row.updated)),
            words.get(state_of(row), state_of(row)),
            say.number(row.turns),
            say.number(row.tokens),
            escape(row.task),
        )
        for row in rows
    ]
    head = (say("run"), say("when"), say("state"), say("turns"), say("tokens"), say("task"))
    widths = [max(len(cell[at]) for cell in (head, *cells)) for at in range(5)]
    return [shorten(_line(cell, widths), width) for cell in ((head, *cells) if cells else ())]


def _line(cell: tuple[str, ...], widths: list[int]) -> str:
    left = [f"{text:<{width}}" for text, width in zip(cell[:3], widths[:3], strict=True)]
    right = [f"{text:>{width}}" for text, width in zip(cell[3:5], widths[3:], strict=True)]
    return "  ".join((*left, *right, cell[5])).rstrip()


def short_ids(rows: "Sequence[RunRow]") -> dict[str, str]:
    """The shortest beginnings that tell the ids of these runs apart."""
    return short_of([row.run_id for row in rows])


def short_of(ids: Sequence[str]) -> dict[str, str]:
    """The shortest beginnings that tell these ids apart."""
    length = SHORTEST
    while len({one[:length] for one in ids}) < len({*ids}):
        length += 1
    return {one: one[:length] for one in ids}


def _confirmed(journal: "SqliteJournal", ids: Sequence[str], say: Catalogue, screen: Screen) -> bool:
    if not somebody_is_there(screen):
        return False
    rows = journal.runs()
    for line in table([row for row in rows if row.run_id in ids], short_ids(rows), say, screen.width):
        screen.line(line)
    screen.raw_error(escape(say("Remove for good? [y/N] ")))
    return sys.stdin.readline().strip().lower() in ("y", "yes", "s", "sí", "si", "sim")


def _age(text: str, say: Catalogue) -> float:
    found = re.fullmatch(r"(\d{1,6})([hdw])", text.strip())
    if found is None:
        raise ConfigurationError(
            say("--older-than: expected an age such as 12h, 30d or 4w, got {text}", text=json.dumps(text))
        )
    return int(found[1]) * AGES[found[2]]


def _size(journal: "SqliteJournal") -> int:
    return journal.path.stat().st_size if journal.path.exists() else 0
