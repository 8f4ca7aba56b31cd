"""What a driver needs for one run."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from brida.approval.answers import Approver
from brida.core.decisions import Env
from brida.core.events import Event, Started
from brida.core.prices import Prices
from brida.core.state import State
from brida.core.stops import Stop
from brida.journal.base import Journal, Writer
from brida.models.base import Delta, Model, Waiting
from brida.runtime.accounts import Above
from brida.runtime.outcome import Outcome
from brida.texts.masking import Mask
from brida.tools.declare import Tool

Listener: TypeAlias = Callable[[Event | Delta | Waiting], None]


def wall_clock() -> Callable[[], float]:
    """Seconds since the epoch that never run backwards within a process."""
    start, base = time.time(), time.monotonic()
    return lambda: start + (time.monotonic() - base)


@dataclass(frozen=True, slots=True)
class Work:
    """What a driver needs for one run: where it starts, what decides, and what does the work.

    ``begins``: how a new run starts, or the events of one that goes on; ``text``: what a person says, None
    where it goes on without; ``new_budget``: with its tokens counted from nothing. ``stop``: how it ends
    before anything is done. ``finish``: makes what the caller gets of the outcome. ``mask``: takes secrets
    out of what enters the run. ``writer``: the run's place in a journal; ``taken``: the messages left there
    that ``text`` is. ``journal``: where the shared budgets are; ``above``: the run that started this one.
    ``prices``: those of the model, where a run that goes on did not know them. ``maker``: whoever made the
    run, for tools that start others.
    """

    begins: Started | tuple[Event, ...]
    text: str | None
    env: Env
    model: Model
    tools: dict[str, Tool]
    approve: Approver | None = None
    listener: Listener | None = None
    clock: Callable[[], float] | None = None
    new_budget: bool = False
    stop: Stop | None = None
    finish: Callable[[Outcome[Any], State], Outcome[Any]] = lambda outcome, _: outcome
    mask: Mask = field(default_factory=lambda: Mask.of({}))
    writer: Writer | None = None
    taken: tuple[int, ...] = ()
    journal: Journal | None = None
    above: Above | None = None
    prices: Prices | None = None
    maker: Any = None
