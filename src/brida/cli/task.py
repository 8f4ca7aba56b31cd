"""Running one task from the command line: signals, output, exit code."""

import asyncio
import io
import os
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from types import FrameType

from brida.agent import Agent
from brida.approval.terminal import StandardInput, Terminal
from brida.cli.screen import Screen
from brida.cli.settings import Flags, Settings
from brida.cli.trace import Trace
from brida.core.events import Event, to_json
from brida.core.stops import EXIT_CODES
from brida.models.base import Delta, close_quietly
from brida.runtime import loops
from brida.runtime.local import LocalRun
from brida.runtime.outcome import Outcome
from brida.texts.catalogue import Catalogue


def run_task(flags: Flags, say: Catalogue, screen: Screen) -> int:
    """Runs the task and gives the exit code. Raises :class:`ConfigurationError` before anything runs."""
    quiet = flags.quiet
    settings = Settings(flags, say, (lambda _: None) if quiet else screen.line)
    task = settings.task()
    model = settings.model()
    tools = settings.tools()
    somebody = _somebody_is_there(screen) and flags.task != "-"
    agent = Agent(
        model=model,
        tools=tools.values(),
        system=settings.system(),
        max_tokens=flags.max_tokens,
        stop_sequences=flags.stop_sequence,
        limits=settings.limits(),
        policy=settings.policy(),
        approve=Terminal(say, screen.raw_error, StandardInput(), width=screen.width) if somebody else None,
        yes_to=settings.yes_to(tools),
        language=say.language,
    )
    machine = flags.json or flags.events
    trace = Trace(screen, say, lines=not quiet, text=not machine)
    listener = _event_lines(screen, trace) if flags.events else trace
    with redirect_stdout(sys.stderr or io.StringIO()):  # what a tool prints is no answer of the model
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


def _somebody_is_there(screen: Screen) -> bool:
    """Whether a person can be asked: stdin and stderr are both terminals."""
    try:
        return sys.stdin is not None and sys.stdin.isatty() and screen.err_is_terminal
    except ValueError:
        return False


def _event_lines(screen: Screen, trace: Trace) -> Callable[[Event | Delta], None]:
    def show(what: Event | Delta) -> None:
        if not isinstance(what, Delta):
            screen.json(to_json(what))
        trace(what)

    return show
