"""The local driver: carries out the steps of one run with asyncio.

It takes the step, records its events, does it, records what came of it, and asks for the next. All it
decides itself is how to wait: a person who wants out, or the deadline, calls it away from whatever it
waits for. Where there is a journal, nothing is done whose record could not be kept.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Generic, cast

from brida.core.encoding import encode
from brida.core.events import (
    CallFinished,
    CallWaits,
    Fault,
    Lost,
    Received,
    Reconciled,
    Reply,
    Resumed,
    Said,
    TokensCounted,
    Waited,
)
from brida.core.run import Ask, Count, Done, Execute, FindOut, Note, Send, Step, Wait, next_step, seconds_left
from brida.core.stops import Stop
from brida.core.turn import Call
from brida.errors import ConfigurationError, ModelFault
from brida.models.base import Waiting
from brida.runtime.attention import Urgency
from brida.runtime.calls import ToolRunner
from brida.runtime.outcome import Outcome, T
from brida.runtime.parent import Parent, running
from brida.runtime.questions import Questions
from brida.runtime.work import Work
from brida.tools.output import share
from brida.tools.text import clean

JITTER: Final = 0.25
"""Share of a wait that is drawn at random, so that many clients do not come back at once."""

LOOKING: Final = 30.0
"""Seconds that the tools of a turn have to say what their calls would change."""

COUNTING: Final = 10.0
"""Seconds that a server has to count the tokens of a request."""


class LocalRun(Parent, Generic[T]):
    """A run under way: a handle, and its driver. Awaiting it gives the :class:`Outcome`.

    :meth:`interrupt` stops it softly: a request, a wait or a question is abandoned at once, a running
    call is let end. :meth:`cancel` ends the call too. Both may be called from any thread or signal
    handler, more than once, and both end in an outcome. Cancelling the task that awaits a run does
    :meth:`cancel`, lets the run record its end, then raises ``CancelledError``.
    """

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._loop = asyncio.get_running_loop()
        images = bool(getattr(work.model, "takes_images", False))
        self._runner = ToolRunner(self.id, work.env.say, self._attention, work.env.yes_to, images, work.mask)
        self._questions = Questions(work.approve, work.tools, work.env.say, self._now)
        self._asking: asyncio.Lock = getattr(work.above, "asking", None) or asyncio.Lock()
        with running(self):
            self._task = self._loop.create_task(self._drive(), name=f"brida run {self.id}")

    @property
    def asking(self) -> asyncio.Lock:
        """Held while a person is asked: a run and those that it starts ask one after the other."""
        return self._asking

    @property
    def ended(self) -> bool:
        """Whether it has recorded its end."""
        return self._task.done()

    async def end(self) -> None:
        """Waits until it has recorded its end, whatever that is."""
        await asyncio.wait([self._task])

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
        listening = self._loop.create_task(self._listen()) if self._work.writer else None
        try:
            self._begin()
            while not isinstance(step := self._next_step(), Done):
                if isinstance(step, Ask) and step.events:
                    step = await self._bound(step)
                    if self._state.stop_requested or self._attention.urgency:
                        continue  # nobody is asked any more
                if not self._commit(*step.events):
                    continue
                if self._cause is None:
                    await self._do(step)
                elif isinstance(step, Send):  # whoever listened broke: nothing leaves any more
                    self._record(
                        Lost(self._now(), Fault("abandoned", "the request was not sent", again=True))
                    )
            await self._end_children()
            self._record(*step.events)
        finally:
            if listening is not None:
                listening.cancel()
            self._keeper.release()
        outcome: Outcome[T] = Outcome.of(self._state, tuple(self._events))
        outcome = self._work.finish(replace(outcome, journal_error=self._keeper.error), self._state)
        if outcome.stop.kind == "configuration_error":
            detail = outcome.stop.detail
            raise ConfigurationError(
                f"{detail.get('where')}: {detail.get('error')}", outcome=outcome
            ) from self._cause
        return outcome

    def _begin(self) -> None:
        """The run begins, or goes on where its events leave it; what was under way then is unknown first."""
        text = self._work.text
        if not self._events:
            self._keep_beginning()
        else:
            if self._state.stop is None and text is not None:
                self._end_what_was_ending()
            too_late = tuple(one.id for one in self._keeper.messages() if one.kind == "stop")
            resumed = Resumed(self._now(), text is not None, self._work.new_budget, self._work.prices)
            self._record(resumed, taken=too_late)
        if text is not None:
            self._record(Said(self._now(), text), taken=self._work.taken)
        if self._work.stop is not None:
            self._request_stop(self._work.stop)

    def _keep_beginning(self) -> None:
        started = self._state.started
        kept = self._keeper.keep((started,), self._state)
        self._events.append(started)
        self._tell(started)
        if not kept:
            self._give_up()

    def _end_what_was_ending(self) -> None:
        """A run whose process died as it was ending has ended before a new text begins anything."""
        if self._state.ending is None and self._state.closing is None:
            return
        self._record(Resumed(self._now()))
        self._request_stop(Stop("interrupted"))
        self._record(*next_step(self._state, self._work.env).events)

    def _next_step(self) -> Step:
        self._hear()
        if self._attention.urgency and self._state.stop_requested is None:
            self._request_stop(Stop("interrupted"))
        self._read_budgets()
        return next_step(self._state, self._work.env)

    async def _do(self, step: Step) -> None:
        match step:
            case Send():
                await self._send(step)
            case Count():
                await self._count(step)
            case Wait():
                await self._wait(step)
            case Ask():
                await self._ask(step)
            case Execute():
                await self._execute(step)
            case FindOut():
                await self._find_out(step)
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
            words, sent = clean(f"{type(error).__name__}: {error}"), not isinstance(error, ConfigurationError)
            return Lost(self._now(), Fault("failed", words, again=True, billed=sent))

    async def _count(self, step: Count) -> None:
        """What the server makes of the request; None where it does not say."""
        counting = self._loop.create_task(self._counted(step))
        left = step.seconds_left
        seconds = COUNTING if left is None else min(COUNTING, left)
        reason = await self._attention.wait([counting], until=Urgency.SOFT, seconds=seconds)
        self._let_time_pass(reason, left if seconds == left else None)
        counted = counting.result() if counting.done() and not counting.cancelled() else None
        self._record(TokensCounted(self._now(), counted))

    async def _counted(self, step: Count) -> int | None:
        try:
            counted: object = await cast("Any", self._work.model).count_tokens(step.request)
        except Exception:  # the bound that does not fit still holds
            return None
        return counted if isinstance(counted, int) and not isinstance(counted, bool) and counted > 0 else None

    async def _wait(self, step: Wait) -> None:
        seconds = step.seconds * (1 - JITTER * random.random()) if step.jitter else step.seconds
        pause = self._loop.create_task(self._pause(seconds))
        reason = await self._attention.wait([pause], until=Urgency.SOFT, seconds=step.seconds_left)
        self._let_time_pass(reason, step.seconds_left)
        self._record(Waited(self._now(), step.seconds))

    async def _pause(self, seconds: float) -> None:
        fault = self._state.fault
        end = self._loop.time() + seconds
        while (left := end - self._loop.time()) > 0:
            self._tell(Waiting(left, "" if fault is None else fault.kind))
            await asyncio.sleep(min(left, 1.0))

    # -- a person

    async def _bound(self, step: Ask) -> Ask:
        """The questions with what their calls would change. Whoever looks has no longer than the run."""
        left = seconds_left(self._state, self._work.env.limits)
        seconds = LOOKING if left is None else min(LOOKING, left)
        bound = await self._from_person("changes", partial(self._questions.bound, step), seconds=seconds)
        return bound if isinstance(bound, Ask) else self._questions.unbound(step)

    async def _ask(self, step: Ask) -> None:
        if self._work.env.on_ask == "park":
            return None
        try:
            self._questions.announce(step)
        except Exception as error:
            return self._fail("approve", error)
        said = await self._from_person("approve", partial(self._questions.answer, step.questions[0]))
        if said is not None:
            self._record(said)
        return None

    async def _from_person(
        self, where: str, asking: Callable[[], Awaitable[Any]], *, seconds: float | None = None
    ) -> Any:
        """What came of asking; None where nothing did, within so many ``seconds`` where they are given."""
        task = self._loop.create_task(self._caught(where, asking))
        reason = await self._attention.wait([task], until=Urgency.SOFT, seconds=seconds)
        self._let_time_pass(reason, seconds)
        if task.cancelled() and reason is None:
            self._fail(where, asyncio.CancelledError("the approver was cancelled"))
        return task.result() if task.done() and not task.cancelled() else None

    async def _caught(self, where: str, asking: Callable[[], Awaitable[Any]]) -> Any:
        try:
            async with self._asking:
                return await asking()
        except asyncio.CancelledError:
            raise
        except KeyboardInterrupt:
            self._request_stop(Stop("interrupted"))
        except BaseException as error:
            self._fail(where, error)
        return None

    # -- calls

    async def _find_out(self, step: FindOut) -> None:
        """What became of a call whose process died: its tool's word, or a person's."""
        if step.of == "tool":
            found = await self._runner.find_out(
                self._work.tools[step.call.asked.tool], step.call, seconds_left=step.seconds_left
            )
            self._record(Reconciled(self._now(), step.call.asked.id, found.found, found.by, found.content))
            return
        said = await self._from_person("approve", partial(self._questions.what_happened, step.call))
        if isinstance(said, Reconciled):
            self._record(said)
        elif not self._attention.urgency and self._cause is None:
            self._request_stop(Stop("stopped", {"reason": "a person"}))

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
        if result.waits_for is not None:
            self._record(CallWaits(self._now(), call.asked.id, result.waits_for))
            return
        self._record(CallFinished(self._now(), call.asked.id, result.outcome, result.content))
        if result.interrupted:
            self._request_stop(Stop("interrupted"))
