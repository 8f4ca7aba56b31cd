"""``brida pending``, ``approve``, ``decline`` and ``settle``: answers to a run whose process has ended."""

from typing import TYPE_CHECKING, Any

import click

from brida.cli.journal_option import journal_command, run_argument
from brida.cli.screen import Screen
from brida.core import wording
from brida.errors import ConfigurationError
from brida.texts.catalogue import Catalogue

if TYPE_CHECKING:
    from brida.journal.sqlite import SqliteJournal

VERSION = 1


def pending_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``pending``."""

    def show(journal: "SqliteJournal", **values: Any) -> int:
        from brida.cli.waiting import all_waiting, safe

        waiting = list(all_waiting(journal))
        if values["json"]:
            screen.json({"version": VERSION, "pending": [one.as_object() for one in waiting]})
            return 0
        if not waiting:
            screen.line(say("nothing waits"))
        for one in waiting:
            for line in one.lines(say):
                screen.out(safe(line))
        return 0

    return journal_command(
        "pending",
        say,
        show,
        help=say("Lists what waits for a person, over all runs."),
        params=[click.Option(["--json"], is_flag=True, help=say("Print one JSON object on stdout."))],
    )


def approve_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``approve``."""

    def approve(
        journal: "SqliteJournal",
        run: str,
        call: str | None,
        edit: str | None,
        session: bool,
        agent: str | None,
        **values: bool,
    ) -> int:
        from brida.cli.waiting import HeldRun, shown

        if edit is not None and values["all"]:
            raise ConfigurationError(say("--edit is for one call, not for --all"))
        with HeldRun(journal, run, say) as held:
            questions = held.chosen(call, every=values["all"], allow=True)
            for question in questions:
                if edit is None:
                    held.allow(question, session=session)
                    screen.line(say("approved: {call}", call=shown(question)))
                else:
                    changed = held.edited(question, edit, agent)
                    screen.line(say("approved with other arguments: {call}", call=shown(changed)))
            held.tell_what_follows(screen, changed=bool(questions))
        return 0

    return journal_command(
        "approve",
        say,
        approve,
        help=say("Allows a call that waits for an answer, exactly as brida pending shows it."),
        params=[
            run_argument(say),
            click.Argument(["call"], required=False, metavar=say("[CALL]")),
            click.Option(["--all"], is_flag=True, help=say("All calls of the run that wait.")),
            click.Option(
                ["--session"], is_flag=True, help=say("Further calls of the tool too, in this run.")
            ),
            click.Option(
                ["--edit"], metavar="JSON", help=say("Other arguments in place of those shown: an object.")
            ),
            click.Option(
                ["--agent"], metavar="MODULE:NAME", help=say("The agent, where code began the run.")
            ),
        ],
    )


def decline_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``decline``."""

    def decline(journal: "SqliteJournal", run: str, call: str | None, reason: str, **values: bool) -> int:
        from brida.cli.waiting import HeldRun, shown

        with HeldRun(journal, run, say) as held:
            questions = held.chosen(call, every=values["all"], allow=False)
            for question in questions:
                held.decline(question, reason)
                screen.line(say("declined: {call}", call=shown(question)))
            held.tell_what_follows(screen, changed=bool(questions))
        return 0

    return journal_command(
        "decline",
        say,
        decline,
        help=say("Declines a call that waits for an answer; the model hears the reason."),
        params=[
            run_argument(say),
            click.Argument(["call"], required=False, metavar=say("[CALL]")),
            click.Option(["--all"], is_flag=True, help=say("All calls of the run that wait.")),
            click.Option(["--reason"], default="", metavar=say("TEXT"), help=say("What the model hears.")),
        ],
    )


def settle_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``settle``."""

    def settle(
        journal: "SqliteJournal",
        run: str,
        call: str | None,
        happened: str | None,
        did_not_happen: bool,
        unknown: bool,
    ) -> int:
        from brida.cli.waiting import HeldRun, shown

        if [happened is not None, did_not_happen, unknown].count(True) != 1:
            raise ConfigurationError(say("choose one of --happened RESULT, --did-not-happen and --unknown"))
        with HeldRun(journal, run, say) as held:
            one = held.lost(call)
            if happened is not None:
                settled = held.settle(one, "happened", happened)
            elif did_not_happen:
                settled = held.settle(one, "did_not_happen")
            else:
                settled = held.settle(one, "unknown", wording.outcome_unknown(held.language))
            screen.line(say("settled: {call}", call=shown(settled)))
            held.tell_what_follows(screen)
        return 0

    return journal_command(
        "settle",
        say,
        settle,
        help=say("Says what became of a call whose process died: it took effect, it did not, nobody knows."),
        params=[
            run_argument(say),
            click.Argument(["call"], required=False, metavar=say("[CALL]")),
            click.Option(
                ["--happened"], metavar=say("RESULT"), help=say("It took effect, and this is its result.")
            ),
            click.Option(
                ["--did-not-happen"], is_flag=True, help=say("It did not: it runs when the run goes on.")
            ),
            click.Option(["--unknown"], is_flag=True, help=say("Nobody knows: the model hears that.")),
        ],
    )
