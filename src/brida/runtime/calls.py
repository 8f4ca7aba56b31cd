"""Running one call of a tool: whatever it does, something valid comes back.

An async tool runs as a task and is cancelled on timeout. A sync tool runs in a daemon thread (see
``threads``): on timeout the context is signalled and the thread is left behind. Neither can end the run
by raising.
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, cast

from brida.core.encoding import Block
from brida.core.events import CallOutcome, Finding
from brida.core.turn import Call
from brida.core.wording import Say, edited
from brida.runtime.attention import Attention, Urgency
from brida.runtime.threads import run_in_daemon_thread
from brida.texts.masking import Mask
from brida.tools.context import CallContext, call_context
from brida.tools.declare import Tool
from brida.tools.output import describe_error, render, share
from brida.tools.reconcile import DidNotHappen, Happened, PastCall, idempotency_key
from brida.tools.text import clean, cut

NOT_CALLED: Final = object()

SMALLEST: Final = 64
"""Bytes that a result has at least, however much is said before it."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call.

    ``interrupted``: the tool raised ``KeyboardInterrupt``, so a person wants out. ``out_of_time``: the
    deadline of the run ended it. ``waits_for``: the run that it started, and that waits for a person.
    """

    outcome: CallOutcome
    content: str | tuple[Block, ...]
    interrupted: bool = False
    out_of_time: bool = False
    waits_for: str | None = None


class RunWaits(Exception):
    """A tool raises it whose call started a run that waits for a person: the call waits too."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} waits for a person")
        self.run_id = run_id


@dataclass(frozen=True, slots=True)
class Found:
    """What was found out of a call whose process died, and by whom."""

    found: Finding
    by: str
    content: str = ""


@dataclass(frozen=True, slots=True)
class ToolRunner:
    """Runs calls for one run. ``limit`` is the size a result may have, in bytes of UTF-8.

    ``takes_images``: whether the model can be shown images. ``mask``: takes secrets out of results.
    """

    run_id: str
    say: Say
    attention: Attention
    yes_to: frozenset[str]
    takes_images: bool = False
    mask: Mask = field(default_factory=lambda: Mask(()))

    async def run(self, tool: Tool, call: Call, *, limit: int, seconds_left: float | None) -> CallResult:
        """Runs the call and gives its result; at most ``tool.timeout`` seconds, or until the deadline."""
        if call.edited is None:
            return await self._run(tool, call, limit=limit, seconds_left=seconds_left)
        notice = cut(_what_changed(call, self.say), limit // 2, self.say)
        rest = max(limit - len(notice.encode()) - 1, SMALLEST)
        result = await self._run(tool, call, limit=rest, seconds_left=seconds_left)
        if isinstance(result.content, str):
            return replace(result, content=f"{notice}\n{result.content}")
        return replace(result, content=({"type": "text", "text": notice}, *result.content))

    async def _run(self, tool: Tool, call: Call, *, limit: int, seconds_left: float | None) -> CallResult:
        context = self._context(tool, call, limit)
        with call_context(context):
            work = asyncio.ensure_future(self._work(tool, call, limit))
        seconds = min(tool.timeout, seconds_left) if seconds_left is not None else tool.timeout
        reason = await self.attention.wait([work], until=Urgency.HARD, seconds=seconds)
        context.cancelled.set()
        if work.done() and not work.cancelled():
            return work.result()
        late = reason == "time" and seconds < tool.timeout
        words = self._unfinished(tool, reason, late=late, ended=work.done() and tool.is_async)
        return CallResult("unknown", words, out_of_time=late)

    async def find_out(self, tool: Tool, call: Call, *, seconds_left: float | None) -> "Found":
        """What the tool itself says of a call whose process died; that it is unclear where it does not."""
        runs = call.runs
        key = idempotency_key(self.run_id, runs.id)
        past = PastCall(runs.id, self.run_id, tool.name, json.loads(runs.canonical), key)
        work = asyncio.ensure_future(call_hook(cast("Callable[..., object]", tool.reconcile), past))
        seconds = min(tool.timeout, seconds_left) if seconds_left is not None else tool.timeout
        await self.attention.wait([work], until=Urgency.HARD, seconds=seconds)
        if not work.done() or work.cancelled() or work.exception() is not None:
            return Found("unclear", tool.name)
        match work.result():
            case Happened(result=result):
                job = partial(render, result, limit=share(1), say=self.say)
                with call_context(self._context(tool, call, share(1))):
                    return Found("happened", tool.name, cast("str", await call_hook(job)))
            case DidNotHappen():
                return Found("did_not_happen", tool.name)
            case _:
                return Found("unclear", tool.name)

    def _context(self, tool: Tool, call: Call, limit: int) -> CallContext:
        """What the tool may know. A call that was asked about is bound to what was there then."""
        shown = call.question
        return CallContext(
            call.asked.id,
            tool.name,
            self.run_id,
            self.say,
            result_limit=limit,
            approved=call.answer is not None or tool.name in self.yes_to,
            basis=None if shown is None else shown.basis,
            takes_images=self.takes_images,
            mask=self.mask,
        )

    async def _work(self, tool: Tool, call: Call, limit: int) -> CallResult:
        try:
            arguments = tool.bind(json.loads(call.runs.canonical))  # what the digest is of
            if tool.is_async:
                value = await cast("Awaitable[object]", tool.function(**arguments))
                return await self._rendered(tool, value, limit)
            job = partial(self._in_thread, tool, arguments, limit)
            value = await run_in_daemon_thread(job, name=f"brida {tool.name}")
            if isinstance(value, CallResult):
                return value
            return await self._rendered(tool, await cast("Awaitable[object]", value), limit)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return self._failed(tool, error)
        except BaseException as error:
            return self._failed(tool, error)

    async def _rendered(self, tool: Tool, value: object, limit: int) -> CallResult:
        """The result of an async tool. Anything but a text may run code: it goes to a thread."""
        if isinstance(value, str):
            return CallResult("ok", render(value, limit=limit, say=self.say))
        job = partial(self._in_thread, tool, {}, limit, returned=value)
        return cast("CallResult", await run_in_daemon_thread(job, name=f"brida {tool.name}"))

    def _in_thread(
        self, tool: Tool, arguments: dict[str, object], limit: int, *, returned: object = NOT_CALLED
    ) -> object:
        try:
            value = tool.function(**arguments) if returned is NOT_CALLED else returned
            if returned is NOT_CALLED and inspect.isawaitable(
                value
            ):  # a wrapper around an async function: the loop awaits it
                return value
            return CallResult("ok", render(value, limit=limit, say=self.say))
        except BaseException as error:
            return self._failed(tool, error)

    def _failed(self, tool: Tool, error: BaseException) -> CallResult:
        if isinstance(error, KeyboardInterrupt):
            return CallResult(
                "unknown", self.say("{tool} was interrupted: outcome unknown", tool=tool.name), True
            )
        if isinstance(error, RunWaits):
            return CallResult("unknown", "", waits_for=error.run_id)
        return CallResult("failed", describe_error(error, self.say))

    def _unfinished(self, tool: Tool, reason: str | None, *, late: bool, ended: bool) -> str:
        if late:
            why = self.say("the run was out of time while {tool} was running", tool=tool.name)
        elif reason == "time":
            why = self.say(
                "{tool} did not finish within {seconds} s", tool=tool.name, seconds=f"{tool.timeout:g}"
            )
        else:
            why = self.say("{tool} was interrupted", tool=tool.name)
        if ended:
            return self.say("{why}; it was cancelled, outcome unknown", why=why)
        return self.say("{why}; it may still be running, outcome unknown", why=why)


def _what_changed(call: Call, say: Say) -> str:
    before, after = call.asked.arguments, call.runs.arguments
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    shown = json.dumps(changed, ensure_ascii=False, separators=(",", ":")) if changed else ""
    left_out = ", ".join(name for name in before if name not in after)
    return edited(say, call.asked.tool, clean(shown), clean(left_out))


async def call_hook(hook: Callable[..., object], *arguments: object) -> object:
    """What a caller's sync or async function gives; a sync one runs in a daemon thread.

    Raises what the function raises.
    """
    if inspect.iscoroutinefunction(hook):
        return await hook(*arguments)
    value, error = cast(
        "tuple[object, BaseException | None]",
        await run_in_daemon_thread(partial(_attempt, hook, arguments), name="brida hook"),
    )
    if error is not None:
        raise error
    return await value if inspect.isawaitable(value) else value


def _attempt(
    hook: Callable[..., object], arguments: tuple[object, ...]
) -> tuple[object, BaseException | None]:
    try:
        return hook(*arguments), None
    except BaseException as error:
        return None, error
