"""``brida steer`` and ``brida stop``: reaching a run that works in another process. And shell completion."""

import os
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from brida.cli.journal_option import events_of, journal_command, run_argument
from brida.cli.screen import Screen
from brida.core.state import fold
from brida.errors import ConfigurationError
from brida.settings.record import secrets_of
from brida.texts.catalogue import Catalogue
from brida.texts.masking import Mask
from brida.tools.text import clean

if TYPE_CHECKING:
    from brida.journal.sqlite import SqliteJournal

BY = "another terminal"


def steer_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``steer``."""

    def steer(journal: "SqliteJournal", run: str, text: str) -> int:
        if not text.strip():
            raise ConfigurationError(say("the message is blank: say what to do"))
        run_id = journal.find(run)
        mask = Mask.of(os.environ, secrets_of(fold(events_of(journal, run_id)).started.settings))
        journal.post(run_id, "steer", mask(clean(text)), BY)
        if _works(journal, run_id):
            screen.line(say("the model reads it after the current turn"))
        else:
            screen.line(say("the run is not at work: the model reads it when brida resume goes on"))
        return 0

    return journal_command(
        "steer",
        say,
        steer,
        help=say("Says something to a run while it works."),
        params=[run_argument(say), click.Argument(["text"], metavar=say("TEXT"))],
    )


def stop_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``stop``."""

    def stop(journal: "SqliteJournal", run: str) -> int:
        run_id = journal.find(run)
        if not _works(journal, run_id):
            screen.line(say("the run is not at work: there is nothing to stop"))
            return 0
        journal.post(run_id, "stop", "", BY)
        screen.line(say("the run stops once the current call has ended"))
        return 0

    return journal_command(
        "stop",
        say,
        stop,
        help=say("Stops a run that works in another process, softly."),
        params=[run_argument(say)],
    )


def completion_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``completion``."""

    def show(shell: str) -> int:
        kind = get_completion_class(shell)
        if kind is None:
            raise ConfigurationError(say("there is no completion for {shell}", shell=shell))
        root = click.get_current_context().find_root().command
        screen.out(kind(root, {}, "brida", "_BRIDA_COMPLETE").source() + "\n")
        return 0

    return click.Command(
        "completion",
        callback=show,
        help=say(
            "Prints the completion of a shell, which completes commands, flags and runs. Put into ~/.bashrc: "
            'eval "$(brida completion bash)"; into ~/.zshrc: eval "$(brida completion zsh)"; into '
            "~/.config/fish/config.fish: brida completion fish | source"
        ),
        params=[click.Argument(["shell"], type=click.Choice(["bash", "zsh", "fish"]))],
    )


def _works(journal: "SqliteJournal", run_id: str) -> bool:
    return any(row.run_id == run_id and row.owner is not None for row in journal.runs())
