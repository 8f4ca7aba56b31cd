"""Running one task from the command line: signals, output, exit code."""

import asyncio
import io
import os
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from types import FrameType
from typing import Final

from brida.agent import Agent
from brida.approval.terminal import StandardInput, Terminal
from brida.cli.flags import Flags
from brida.cli.making import make_agent
from brida.cli.screen import Screen, somebody_is_there
from brida.cli.trace import Trace
from brida.core.events import Event, Question, to_json
from brida.core.stops import EXIT_CODES
from brida.errors import ConfigurationError
from brida.models.base import Delta, close_quietly
from brida.runtime import loops
from brida.runtime.local import LocalRun
from brida.runtime.outcome import Outcome
from brida.texts.catalogue import N_, Catalogue
from brida.tools.change import Change

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

    def ask(words: Catalogue) -> Terminal | None:
        def change(question: Question) -> Change | None:
            asked = agent.tools.get(question.tool)
            return None if asked is None else asked.change(question.arguments, words)

        if not somebody:
            return None
        return Terminal(words, screen.raw_error, StandardInput(), width=screen.width, change=change)

    tell = (lambda _: None) if flags.quiet else screen.line
    with redirect_stdout(sys.stderr or io.StringIO()):  # what a module or a tool prints is no answer
        agent = make_agent(settings, say, tell, ask)
        say = Catalogue.for_language(agent.language)
        trace = Trace(screen, say, lines=not flags.quiet, text=not (flags.json or flags.events))
        listener = _event_lines(screen, trace) if flags.events else trace
        task = say(DEFAULT_TASK) if task is None else task
        outcome = loops.run(lambda: _drive(agent, task, listener, screen, say), handle_interrupt=False)
    if flags.json:
        screen.json(outcome.to_json())
    trace.end(outcome)
    if screen.output_lost:
        screen.line(say("not all of the output could be written"))
        return EXIT_CODES["failed"]
    if flags.fail_on_declined and outcome.completed and outcome.declined:
        return EXIT_CODES["stopped"]
    return outcome.stop.exit_code


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
    agent: Agent, task: str, listener: Callable[[Event | Delta], None], screen: Screen, say: Catalogue
) -> Outcome:
    run = agent.start(task, listener=listener)
    words = say("stopping; press Ctrl-C again to stop at once")
    later = asyncio.get_running_loop().call_soon_threadsafe  # a handler may interrupt a write
    restore = _catch_signals(run, lambda: later(screen.line, words))
    try:
        return await run
    finally:
        restore()
        await close_quietly(agent.model)


def _catch_signals(run: LocalRun, tell: Callable[[], object]) -> Callable[[], None]:
    """The first Ctrl-C stops softly, the second at once, the third ends the process. A terminal that hangs
    up, or a service that is told to end, stops the run at once."""
    presses = 0

    def on_interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            run.interrupt()
            tell()
        elif presses == 2:
            run.cancel()
        else:
            os._exit(EXIT_CODES["interrupted"])

    def on_end(_number: int, _frame: FrameType | None) -> None:
        run.cancel()

    handlers = {signal.SIGINT: on_interrupt, signal.SIGTERM: on_end}
    if hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = on_end
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return restore


def _event_lines(screen: Screen, trace: Trace) -> Callable[[Event | Delta], None]:
    def show(what: Event | Delta) -> None:
        if not isinstance(what, Delta):
            screen.json(to_json(what))
        trace(what)

    return show
