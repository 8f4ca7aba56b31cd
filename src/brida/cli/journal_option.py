"""Which journal a command looks into, and which run."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from brida.texts.catalogue import N_, Catalogue

if TYPE_CHECKING:
    from brida.core.events import Event
    from brida.journal.sqlite import SqliteJournal

RUN = N_("RUN")

TASK_SHOWN: Final = 60
"""Columns of a task beside its id, where a shell completes ids."""


def journal_command(
    name: str,
    say: Catalogue,
    do: Callable[..., int],
    *,
    help: str,
    params: list[click.Parameter],
) -> click.Command:
    """A command with ``--journal``, whose function gets the open journal first."""

    def run(journal: str | None, **values: Any) -> int:
        return do(open_journal(journal, say), **values)

    option = click.Option(["--journal"], metavar=say("PATH"), help=say("The journal, where it is another."))
    return click.Command(
        name, callback=run, help=help, options_metavar=say("[OPTIONS]"), params=[*params, option]
    )


def open_journal(path: str | None, say: Catalogue) -> "SqliteJournal":
    """The journal that the flag, a variable or a file of settings names, else the default one.

    Nothing is made by looking. Raises :class:`ConfigurationError` where the settings are wrong.
    """
    from brida.journal.sqlite import SqliteJournal, default_path
    from brida.settings.load import load
    from brida.settings.merge import merged
    from brida.settings.values import Given, Source

    flags = {} if path is None else {"journal": Given(path, Source("flag", "--journal"))}
    given = merged(load(Path.cwd(), flags, say).layers).values["journal"]
    if given.value in (None, "off"):
        return SqliteJournal(default_path(), say)
    directory = given.source.directory or Path()
    return SqliteJournal(directory / Path(str(given.value)).expanduser(), say)


def run_argument(say: Catalogue, *, many: bool = False, required: bool = True) -> click.Argument:
    """The argument that names a run: a unique beginning of its id, or ``-`` for the last one."""
    return click.Argument(
        ["runs" if many else "run"],
        nargs=-1 if many else 1,
        required=required,
        metavar=say(RUN) + ("..." if many else ""),
        shell_complete=complete_ids,
    )


def events_of(journal: "SqliteJournal", run_id: str) -> "tuple[Event, ...]":
    """All events of the run."""
    return tuple(record.event for record in journal.read(run_id))


def complete_ids(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Any]:
    """The ids that begin so, each with the beginning of its task, for a shell."""
    from click.shell_completion import CompletionItem

    from brida.texts.terminal import escape, shorten

    path = context.params.get("journal")
    try:
        rows = open_journal(path if isinstance(path, str) else None, context.obj).runs()
    except Exception:  # whoever types is not told of a broken journal here
        return []
    return [
        CompletionItem(row.run_id, help=shorten(escape(row.task), TASK_SHOWN))
        for row in rows
        if row.run_id.startswith(incomplete)
    ]
