"""``brida resume``: a run of the journal goes on where it stood."""

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import click

from brida.cli.flags import CommandWithSettings, Flags, options_of_a_resumed_run
from brida.cli.journal_option import open_journal, run_argument
from brida.cli.screen import Screen, somebody_is_there
from brida.errors import ConfigurationError
from brida.texts.catalogue import Catalogue

if TYPE_CHECKING:
    from brida.cli.task import TaskFlags
    from brida.core.events import Started


def resume_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``resume``."""

    def run(run: str, message: str | None, take_over: bool, **values: Any) -> int:
        if values["json"] and values["events"]:
            raise click.UsageError(say("--json and --events exclude each other: choose one"))
        from brida.cli.task import TaskFlags

        flags = TaskFlags(**{name: values[name] for name in TaskFlags.__dataclass_fields__ if name in values})
        return resume(run, message, flags, Flags.of(**values), say, screen, take_over=take_over)

    return CommandWithSettings(
        "resume",
        callback=run,
        help=say(
            "Goes on with a run where it stood. Its settings are in the journal; a limit may be raised, and "
            "a message says what to do next."
        ),
        options_metavar=say("[OPTIONS]"),
        params=[
            run_argument(say),
            click.Argument(["message"], required=False, metavar=say("[MESSAGE]")),
            *options_of_a_resumed_run(say),
            click.Option(
                ["--take-over"], is_flag=True, help=say("Take the run from a process that still holds it.")
            ),
            click.Option(["--json"], is_flag=True, help=say("Print one JSON object on stdout.")),
            click.Option(
                ["--events"], is_flag=True, help=say("Print every event as a line of JSON on stdout.")
            ),
            click.Option(["--quiet"], is_flag=True, help=say("No trace and no closing line.")),
            click.Option(["--debug"], is_flag=True, help=say("Show where a bug in brida happened.")),
            click.Option(
                ["--fail-on-declined"], is_flag=True, help=say("Exit with 3 where a call was declined.")
            ),
        ],
    )


def resume(
    run: str,
    message: str | None,
    flags: "TaskFlags",
    settings: Flags,
    say: Catalogue,
    screen: Screen,
    *,
    take_over: bool = False,
) -> int:
    """Goes on with the run and gives the exit code. Raises :class:`ConfigurationError`,
    :class:`JournalError` and :class:`ResumeRefused` before anything is recorded.
    """
    from brida.cli.asking import terminal_approver
    from brida.cli.making import agent_of_record
    from brida.cli.task import carry_out

    given = settings.settings.get("journal")
    journal = open_journal(None if given is None else str(given.value), say)
    if message is not None and not message.strip():
        raise ConfigurationError(say("the message is blank: say what to do"))
    run_id = journal.find(run)
    before = [record.event for record in journal.read(run_id)]
    started = cast("Started", before[0])
    somebody = somebody_is_there(screen)
    ask = terminal_approver(screen, lambda: agent.tools) if somebody else lambda _: None
    tell = (lambda _: None) if flags.quiet else screen.line
    agent = agent_of_record(started, settings, say, tell, ask)
    agent.journal = journal
    start = partial(agent.resume, run_id, message, take_over=take_over)
    return carry_out(agent, start, flags, screen, somebody=somebody, before=before)
