"""Finding out what became of a call that was under way when its process died."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call that had been started and of which no result was recorded.

    ``idempotency_key`` is the one that the call itself could read from its context.
    """

    call_id: str
    run_id: str
    tool: str
    arguments: Mapping[str, object]
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class Happened:
    """The call took effect. ``result`` is what the model hears of it, as if the tool had returned it."""

    result: object


@dataclass(frozen=True, slots=True)
class DidNotHappen:
    """The call had no effect, so it may run now. Say it only where that is certain."""


DID_NOT_HAPPEN: Final = DidNotHappen()

Reconcile: TypeAlias = Callable[[PastCall], object]
"""Gives :class:`Happened`, :data:`DID_NOT_HAPPEN`, or None where it cannot tell; sync or async. Where it
raises, or gives anything else, it cannot tell."""


def idempotency_key(run_id: str, call_id: str) -> str:
    """The key that is the same whenever the call is tried, and no other call's."""
    return f"{run_id}:{call_id}"
