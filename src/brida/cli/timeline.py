"""``brida show`` and ``brida export``: a run of the journal, to read or to take away."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from brida.cli.journal_option import events_of, journal_command, run_argument
from brida.cli.screen import Screen
from brida.core.stops import EXIT_CODES
from brida.errors import ConfigurationError, Damaged, NewerRecord
from brida.texts.catalogue import Catalogue

if TYPE_CHECKING:
    from brida.journal.base import Record
    from brida.journal.sqlite import SqliteJournal

FORMS: Final = ("markdown", "messages", "jsonl")


def show_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``show``."""

    def show(journal: "SqliteJournal", run: str, **values: Any) -> int:
        from brida.cli.recorded import Timeline
        from brida.core.codec import to_json

        run_id = journal.find(run)
        records, broken = _readable(lambda: journal.read(run_id))
        if values["json"]:
            for record in records:
                screen.json({"seq": record.seq, **to_json(record.event)})
        else:
            late, broken_late = _readable(lambda: journal.late(run_id))
            broken += broken_late
            try:
                Timeline(screen, say).show(records, late=late)
            except ValueError as error:  # whole by its checksums, and yet no run: all of it is shown by now
                broken.append(error)
        for why in broken:
            screen.line(say("Error: {message}", message=why))
        return EXIT_CODES["failed"] if broken else 0

    return journal_command(
        "show",
        say,
        show,
        help=say("Shows a run as it went, each line with the number of its event."),
        params=[
            run_argument(say),
            click.Option(
                ["--json"], is_flag=True, help=say("Print every event as a line of JSON on stdout.")
            ),
        ],
    )


def _readable(read: "Callable[[], tuple[Record, ...]]") -> "tuple[tuple[Record, ...], list[Exception]]":
    """What can be read, and why no more of it."""
    try:
        return read(), []
    except (Damaged, NewerRecord) as error:
        return error.records, [error]


def export_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``export``."""

    def export(journal: "SqliteJournal", run: str, form: str, to: str | None, force: bool) -> int:
        from brida.cli.recorded import FORMS as WRITERS

        text = WRITERS[form](events_of(journal, journal.find(run)), say)
        if to is None:
            screen.out(text)
        else:
            _write(Path(to), text, say, force=force)
            screen.line(say("written: {path}", path=to))
        return EXIT_CODES["failed"] if screen.output_lost else 0

    return journal_command(
        "export",
        say,
        export,
        help=say("Writes a run: a transcript in Markdown, the messages, or every event."),
        params=[
            run_argument(say),
            click.Option(
                ["--as", "form"],
                type=click.Choice(FORMS),
                default="markdown",
                help=say("What to write."),
            ),
            click.Option(["--to"], metavar=say("FILE"), help=say("A new file, instead of stdout.")),
            click.Option(["--force"], is_flag=True, help=say("Replace the file where it is there already.")),
        ],
    )


def _write(path: Path, text: str, say: Catalogue, *, force: bool) -> None:
    from brida.cli.transcript import replace_file, write_new

    try:
        (replace_file if force else write_new)(path, text)
    except FileExistsError:
        words = say("{path} is there already; --force replaces a file", path=path)
        raise ConfigurationError(words) from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(say("{path} cannot be written: {why}", path=path, why=error)) from error
