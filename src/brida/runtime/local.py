"""The local driver: carries out the steps of one run with asyncio.

It takes the step, records its events, does it, records what came of it, and asks for the next. All it
decides itself is how to wait: a person who wants out, or the deadline, calls it away from whatever it
waits for.
"""

import asyncio
import json
import random
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeAlias, cast

from brida.approval.answers import Answer, Approver, Overview, checked
from brida.core.decisions import Env
from brida.core.encoding import digest, encode
from brida.core.events import (
    Answered,
    Asked,
    CallFinished,
    Edited,
    Event,
    Fault,
    Lost,
    Question,
    Received,
    Reply,
    Resumed,
    Said,
    Started,
    StopRequested,
    Waited,
)
from brida.core.run import Ask, Done, Execute, Note, Send, Step, Wait, next_step
from brida.core.state import Call, State, fold
from brida.core.stops import Stop
from brida.errors import ConfigurationError, ModelFault
from brida.models.base import Delta, Model
from brida.runtime.attention import Attention, Reason, Urgency
from brida.runtime.calls import ToolRunner, call_hook
from brida.runtime.outcome import Outcome, T
from brida.tools.declare import Tool
from brida.tools.output import share
from brida.tools.text import clean

Listener: TypeAlias = Callable[[Event | Delta], None]

JITTER: Final = 0.25
"""Share of a wait that is drawn at random, so that many clients do not come back at once."""


def wall_clock() -> Callable[[], float]:
    """Seconds since the epoch that never run backwards within a process."""
    start, base = time.time(), time.monotonic()
    return lambda: start + (time.monotonic() - base)


@dataclass(frozen=True, slots=True)
class Work:
    """What a driver needs for one run: where it starts, what decides, and what does the work.

    ``begins``: how a new run starts, or the events of one that has stopped and goes on; ``new_budget``:
    with its tokens counted from nothing. ``finish``: makes what the caller gets of the outcome.
    """

    begins: Started | tuple[Event, ...]
    text: str
    env: Env
    model: Model
    tools: dict[str, Tool]
    approve: Approver | None = None
    listener: Listener | None = None
    clock: Callable[[], float] | None = None
    new_budget: bool = False
    finish: Callable[[Outcome[Any], State], Outcome[Any]] = lambda outcome, _: outcome


class LocalRun(Generic[T]):
    """A run under way: a handle, and its driver. Awaiting it gives the :class:`Outcome`.

    :meth:`interrupt` stops it softly: a request, a wait or a question is abandoned at once, a running
    call is let end. :meth:`cancel` ends the call too. Both may be called from any thread or signal
    handler, more than once, and both end in an outcome. Cancelling the task that awaits a run does
    :meth:`cancel`, lets the run record its end, then raises ``CancelledError``.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._clock = work.clock or wall_clock()
        self._not_before = 0.0
        self._listener = work.listener
        self._cause: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self._attention = Attention()
        begins = work.begins
        self._events: list[Event] = (
            [replace(begins, at=self._now())] if isinstance(begins, Started) else list(begins)
        )
        self._state = fold(self._events)
        self._not_before = self._state.at
        images = bool(getattr(work.model, "takes_images", False))
        self._runner = ToolRunner(self.id, work.env.say, self._attention, work.env.yes_to, images)
        self._task = self._loop.create_task(self._drive(), name=f"brida run {self.id}")

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._state.started.run_id

    def interrupt(self) -> None:
        """Stops the run softly, as the first Ctrl-C does."""
        self._call_away(Urgency.SOFT)

    def cancel(self) -> None:
        """Stops the run at once, as the second Ctrl-C does."""
        self._call_away(Urgency.HARD)

    def __await__(self) -> Generator[Any, None, Outcome[T]]:
        return self._outcome().__await__()

    async def _outcome(self) -> Outcome[T]:
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self.cancel()
            await asyncio.wait([self._task])
            raise

    def _call_away(self, level: Urgency) -> None:
        with suppress(RuntimeError):  # the loop is closed, so the run is over
            self._loop.call_soon_threadsafe(self._attention.raise_to, level)

    # -- the loop

    async def _drive(self) -> Outcome[T]:
        if self._state.stop is None:
            self._tell(self._state.started)
        else:
            self._record(Resumed(self._now(), afresh=True, new_budget=self._work.new_budget))
        self._record(Said(self._now(), self._work.text))
        while not isinstance(step := self._next_step(), Done):
            if isinstance(step, Ask) and step.events:
                step = await self._bound(step)
            self._record(*step.events)
            if self._cause is None:
                await self._do(step)
            elif isinstance(step, Send):  # whoever listened broke: nothing leaves any more
                self._record(Lost(self._now(), Fault("abandoned", "the request was not sent", again=True)))
        self._record(*step.events)
        outcome = self._work.finish(Outcome.of(self._state, tuple(self._events)), self._state)
        if outcome.stop.kind == "configuration_error":
            detail = outcome.stop.detail
            raise ConfigurationError(
                f"{detail.get('where')}: {detail.get('error')}", outcome=outcome
            ) from self._cause
        return outcome

    def _next_step(self) -> Step:
        if self._attention.urgency and self._state.stop_requested is None:
            self._request_stop(Stop("interrupted"))
        return next_step(self._state, self._work.env)

    async def _do(self, step: Step) -> None:
        match step:
            case Send():
                await self._send(step)
            case Wait():
                await self._wait(step)
            case Ask():
                await self._ask(step)
            case Execute():
                await self._execute(step)
            case Note() | Done():
                pass

    async def _send(self, step: Send) -> None:
        attempt = self._loop.create_task(self._attempt(step))
        reason = await self._attention.wait([attempt], until=Urgency.SOFT, seconds=step.seconds_left)
        if attempt.done() and not attempt.cancelled():
            self._record(attempt.result())
        else:
            self._let_time_pass(reason, step.seconds_left)
            self._record(
                Lost(self._now(), Fault("abandoned", "the request was abandoned", again=True, billed=True))
            )

    async def _attempt(self, step: Send) -> Received | Lost:
        try:
            reply: object = await self._work.model.complete(step.request, self._tell)
            if not isinstance(reply, Reply):
                raise TypeError(f"a model gives a Reply, not {type(reply).__name__}")
            encode(reply.content)  # what cannot be sent again is refused here, before the run learns it
            return Received(self._now(), reply)
        except ModelFault as error:
            return Lost(self._now(), error.fault)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._fail("model", error)
            return Lost(self._now(), Fault("failed", clean(f"{type(error).__name__}: {error}"), again=True))

    async def _wait(self, step: Wait) -> None:
        seconds = step.seconds * (1 - JITTER * random.random()) if step.jitter else step.seconds
        pause = self._loop.create_task(asyncio.sleep(seconds))
        reason = await self._attention.wait([pause], until=Urgency.SOFT, seconds=step.seconds_left)
        self._let_time_pass(reason, step.seconds_left)
        self._record(Waited(self._now(), step.seconds))

    async def _bound(self, step: Ask) -> Ask:
        """The questions, each bound to what its call would change; a thread looks at that."""
        looking = self._loop.create_task(self._look(step.questions))
        await self._attention.wait([looking], until=Urgency.SOFT)
        if not looking.done() or looking.cancelled():
            return step  # the run is called away: none of them will be answered
        questions = looking.result()
        fresh = {question.call_id for asked in step.events for question in asked.questions}
        return Ask(questions, (Asked(self._now(), tuple(q for q in questions if q.call_id in fresh)),))

    async def _look(self, questions: tuple[Question, ...]) -> tuple[Question, ...]:
        try:
            return cast("tuple[Question, ...]", await call_hook(self._with_bases, questions))
        except asyncio.CancelledError:
            raise
        except KeyboardInterrupt:
            self._request_stop(Stop("interrupted"))
        except BaseException as error:
            self._fail("changes", error)
        return questions

    def _with_bases(self, questions: Iterable[Question]) -> tuple[Question, ...]:
        return tuple(self._with_basis(question) for question in questions)

    def _with_basis(self, question: Question) -> Question:
        if question.problems or question.basis is not None:
            return question
        change = self._work.tools[question.tool].change(question.arguments, self._work.env.say)
        return question if change is None else replace(question, basis=change.basis)

    async def _ask(self, step: Ask) -> None:
        question = step.questions[0]
        if step.events and len(step.questions) > 1 and isinstance(self._work.approve, Overview):
            try:
                self._work.approve.announce(step.questions)
            except Exception as error:
                return self._fail("approve", error)
        asking = self._loop.create_task(self._answer(question))
        reason = await self._attention.wait([asking], until=Urgency.SOFT)
        if asking.cancelled() and reason is None:
            self._fail("approve", asyncio.CancelledError("the approver was cancelled"))
        elif asking.done() and not asking.cancelled() and (said := asking.result()) is not None:
            self._record(self._said(question, said))
        return None

    def _said(self, question: Question, said: Answer) -> Answered | Edited:
        """The event that an answer is. Arguments that are those shown change nothing."""
        by, arguments = clean(said.by), said.arguments
        if said.allow and arguments is not None:
            arguments = json.loads(encode(dict(arguments)))
            if digest(question.tool, arguments) != question.digest:
                return Edited(self._now(), question.call_id, question.digest, arguments, by)
        reason = clean(said.reason)
        return Answered(self._now(), question.call_id, question.digest, said.allow, by, reason, said.session)

    async def _answer(self, question: Question) -> Answer | None:
        """The answer; None where there is none and the run must stop."""
        try:
            if self._work.approve is None:
                raise TypeError("there is nobody to ask")
            return checked(await call_hook(self._work.approve, question))
        except asyncio.CancelledError:
            raise
        except KeyboardInterrupt:
            self._request_stop(Stop("interrupted"))
        except BaseException as error:
            self._fail("approve", error)
        return None

    async def _execute(self, step: Execute) -> None:
        limit = share(len(self._state.calls))
        if len(step.calls) == 1:  # it hears a stop itself, so it needs no task of its own
            return await self._run_call(step.calls[0], step, limit)
        calls = [self._loop.create_task(self._run_call(call, step, limit)) for call in step.calls]
        await self._attention.wait(calls)
        for call in calls:
            call.result()
        return None

    async def _run_call(self, call: Call, step: Execute, limit: int) -> None:
        tool = self._work.tools[call.asked.tool]
        result = await self._runner.run(tool, call, limit=limit, seconds_left=step.seconds_left)
        if result.out_of_time:
            self._let_time_pass("time", step.seconds_left)
        self._record(CallFinished(self._now(), call.asked.id, result.outcome, result.content))
        if result.interrupted:
            self._request_stop(Stop("interrupted"))

    # -- what is learned

    def _record(self, *events: Event) -> None:
        for event in events:
            stamped = replace(event, at=self._now())
            self._state.apply(stamped)
            self._events.append(stamped)
            self._tell(stamped)

    def _tell(self, what: Event | Delta) -> None:
        if self._listener is None:
            return
        try:
            self._listener(what)
        except BaseException as error:
            self._listener = None
            self._fail("listener", error)

    def _fail(self, where: str, error: BaseException) -> None:
        """A hook, a model or a listener is broken: the run ends for it, its history whole."""
        if self._state.stop is not None:
            return  # the run is over already
        self._cause = error
        facts = {"where": where, "error": clean(f"{type(error).__name__}: {error}")}
        self._request_stop(Stop("configuration_error", facts))

    def _request_stop(self, stop: Stop) -> None:
        self._record(StopRequested(self._now(), stop))

    def _let_time_pass(self, reason: Reason | None, seconds: float | None) -> None:
        """Where a timer of the deadline rang, no event after it may be stamped before it."""
        if reason == "time" and seconds is not None:
            self._not_before = self._state.at + seconds

    def _now(self) -> float:
        return max(self._clock(), self._not_before)
