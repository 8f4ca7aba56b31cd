"""What a tool may know of the call it runs in.

A context variable carries it, so it is there in an async tool, in the thread of a sync tool (started
with a copy of the context) and in whatever they call; parallel calls do not see each other's.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from brida.core.wording import Say, english
from brida.texts.masking import Mask
from brida.tools.reconcile import idempotency_key


@dataclass(frozen=True, slots=True)
class CallContext:
    """One call of one tool, as the tool sees it.

    ``cancelled`` is set when the run no longer waits for this call (timeout, cancel, second Ctrl-C). An
    async tool is cancelled besides; a sync tool that takes long should look at it now and then.
    ``result_limit`` is the number of bytes that its result may have before it is cut; None where nobody
    said. ``approved``: a person said yes to this very call, or to the tool in advance. ``basis``: what the
    change that was approved would replace, as :class:`brida.tools.change.Change` has it; None where no
    approval was bound to anything. ``takes_images``: the model can be shown images. ``mask``: takes
    secrets out of texts, as the run does with every result.
    """

    call_id: str
    tool: str
    run_id: str
    say: Say
    cancelled: threading.Event = field(default_factory=threading.Event)
    result_limit: int | None = None
    approved: bool = False
    basis: str | None = None
    takes_images: bool = False
    mask: Mask = field(default_factory=lambda: Mask(()), compare=False)

    @property
    def idempotency_key(self) -> str:
        """The key to pass on to whatever the call changes: the same whenever this call is tried again."""
        return idempotency_key(self.run_id, self.call_id)


_current: ContextVar[CallContext] = ContextVar("brida_call")


def current_call() -> CallContext:
    """The call that this code runs in. Raises ``RuntimeError`` where there is none."""
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError(
            "current_call() was called outside a tool call: it works only in a tool that a run has called,"
            " and in a thread only if the thread was started with a copy of the tool's context"
        ) from None


def running_call() -> CallContext | None:
    """As :func:`current_call`, but None outside a call: for tools that people call by hand as well."""
    return _current.get(None)


def say_of_call() -> Say:
    """What translates for the current call; English outside one."""
    call = running_call()
    return english if call is None else call.say


def without_secrets(text: str, size: int) -> str:
    """A text that is cut to ``size`` next, without secrets: of one that was cut in two, a half would stay."""
    call = running_call()
    return text if call is None else call.mask.beginning(text, size)


def around_a_page() -> int:
    """The characters before and after a page that :func:`without_halves` wants to see."""
    call = running_call()
    return 0 if call is None else call.mask.longest


def without_halves(before: str, page: str, after: str) -> str:
    """A page of a longer text, with stars for what it would show of a secret that its edges cut in two.

    A secret that is whole stays: it is taken out as in every result.
    """
    call = running_call()
    start, end = len(before), len(before) + len(page)
    for first, last in () if call is None else call.mask.spans(before + page + after):
        if first < start < last or first < end < last:
            low, high = max(first, start) - start, min(last, end) - start
            page = page[:low] + "*" * (high - low) + page[high:]
    return page


@contextmanager
def call_context(call: CallContext) -> Iterator[CallContext]:
    """Makes ``call`` the current one for the block, and puts back what was there, however it ends."""
    token = _current.set(call)
    try:
        yield call
    finally:
        _current.reset(token)
