"""Running one task from the command line: signals, output, exit code."""

import asyncio
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from brida.agent import Agent
from brida.cli.asking import terminal_approver
from brida.cli.flags import Flags
from brida.cli.making import make_agent
from brida.cli.menu import Menu
from brida.cli.reins import Reins
from brida.cli.screen import Screen, somebody_is_there
from brida.cli.trace import Trace
from brida.core.codec import to_json
from brida.core.events import Event
from brida.core.stops import EXIT_CODES
from brida.errors import ConfigurationError
from brida.models.base import Delta, Waiting, close_quietly
from brida.runtime import loops
from brida.runtime.local import LocalRun
from brida.runtime.outcome import Outcome
from brida.runtime.work import Listener
from brida.texts.catalogue import N_, Catalogue

Start: TypeAlias = Callable[..., LocalRun[Any]]

DEFAULT_TASK: Final = N_("Read the first line of README.md, then tell me what time it is")


@dataclass(frozen=True, slots=True)
class TaskFlags:
    """The flags of ``brida run``, beside those that make the agent."""

    task: str | None = None
    json: bool = False
    events: bool = False
    quiet: bool = False
    debug: bool = False
    fail_on_declined: bool = False


def run_task(flags: TaskFlags, settings: Flags, say: Catalogue, screen: Screen) -> int:
    """Runs the task and gives the exit code. Raises :class:`ConfigurationError` before anything runs."""
    task = _task(flags.task, say)
    somebody = somebody_is_there(screen) and flags.task != "-"
    ask = terminal_approver(screen, lambda: agent.tools) if somebody else lambda _: None
    tell = (lambda _: None) if flags.quiet else screen.line
    with redirect_stdout(sys.stderr or io.StringIO()):  # what a module or a tool prints is no answer
        agent = make_agent(settings, say, tell, ask)
    said = agent.say(DEFAULT_TASK) if task is None else task
    return carry_out(agent, partial(agent.start, said), flags, screen, somebody=somebody)


def carry_out(
    agent: Agent,
    start: Start,
    flags: TaskFlags,
    screen: Screen,
    *,
    somebody: bool,
    before: Iterable[Event] = (),
) -> int:
    """Runs what ``start`` starts to its end, shows it, and gives the exit code.

    ``before``: the events of a run that goes on.
    """
    say = Catalogue.for_language(agent.language)
    trace = Trace(screen, say, lines=not flags.quiet, text=not (flags.json or flags.events))
    trace.remember(before)
    listener = _event_lines(screen, trace) if flags.events else trace
    warning = getattr(agent.journal, "warning", None)
    if warning and not flags.quiet:
        screen.line(warning)
    menu = Menu(agent, screen, say) if somebody and agent.journal is not None else None
    with redirect_stdout(sys.stderr or io.StringIO()):
        outcome = loops.run(
            lambda: _drive(agent, partial(start, listener=listener), menu, listener, screen, say),
            handle_interrupt=False,
        )
    if flags.json:
        screen.json(outcome.to_json())
    trace.end(outcome)
    for line in what_next(outcome, agent, say):
        if not flags.quiet or outcome.stop.kind == "waiting":
            screen.line(line)
    if screen.output_lost:
        screen.line(say("not all of the output could be written"))
        return EXIT_CODES["failed"]
    if flags.fail_on_declined and outcome.completed and outcome.declined:
        return EXIT_CODES["stopped"]
    return outcome.stop.exit_code


def what_next(outcome: Outcome[Any], agent: Agent, say: Catalogue) -> Iterator[str]:
    """How a run that a journal keeps goes on, where it is not complete."""
    if outcome.journal_error is not None:
        yield say("not all of the run is in the journal: {why}", why=outcome.journal_error.detail["error"])
    if agent.journal is None or outcome.stop.stop_class == "finished":
        return
    for call in outcome.questions:
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        yield say("{call} waits for an answer", call=f"{call.id}: {call.tool}({arguments})")
    below: Any = outcome.stop.detail.get("runs") or [outcome.run_id]
    if outcome.questions:
        yield say("brida pending shows how to answer, such as brida approve {run_id}", run_id=below[0])
    yield say("brida resume {run_id} goes on with this run", run_id=outcome.run_id)


def _task(task: str | None, say: Catalogue) -> str | None:
    """The task: the argument, or the standard input where it is ``-``; None for the default one."""
    if task == "-":
        if sys.stdin is None:
            raise ConfigurationError(say("the task - reads the standard input, and that is closed"))
        try:
            task = sys.stdin.buffer.read().decode("utf-8", "replace")
        except OSError as error:
            raise ConfigurationError(say("the standard input cannot be read: {why}", why=error)) from error
    if task is not None and not task.strip():
        raise ConfigurationError(say("the task is blank: say what to do"))
    return task


async def _drive(
    agent: Agent, start: Start, menu: "Menu | None", listener: Listener, screen: Screen, say: Catalogue
) -> Outcome[Any]:
    words = say("stopping; press Ctrl-C again to stop at once")
    later = asyncio.get_running_loop().call_soon_threadsafe  # a handler may interrupt a write
    leave = (lambda: None) if menu is None else menu.leave
    reins = Reins(lambda: later(screen.line, words), idle=lambda: later(leave), leave=lambda: later(leave))
    try:
        with reins.taken():
            while True:
                run = start()
                with reins.hold(run):
                    outcome: Outcome[Any] = await run
                if menu is None or reins.told_to_end or outcome.stop.kind != "interrupted":
                    return outcome
                choice = await menu.ask()
                if choice is None:
                    return outcome
                start = partial(
                    agent.resume, outcome.run_id, choice.text, stop=choice.stop, listener=listener
                )
    finally:
        await close_quietly(agent.model)


def _event_lines(screen: Screen, trace: Trace) -> Callable[[Event | Delta | Waiting], None]:
    def show(what: Event | Delta | Waiting) -> None:
        if not isinstance(what, Delta | Waiting):
            screen.json(to_json(what))
        trace(what)

    return show
