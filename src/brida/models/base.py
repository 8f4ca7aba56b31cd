"""What a model is to the loop: something that makes one attempt at a request."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from brida.core.events import Reply
from brida.core.request import Request


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply as it arrives. Deltas are for watching only: the whole reply is what counts."""

    kind: Literal["text", "thinking", "tool_use"]
    text: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A wait between two attempts, once a second while it lasts. For watching only, as a :class:`Delta`.

    ``seconds`` are left of it; ``fault``: the kind of the fault after which another attempt is made.
    """

    seconds: float
    fault: str


OnDelta: TypeAlias = Callable[[Delta], None]


class Model(Protocol):
    """One small protocol behind which every model stands.

    ``name`` goes on the wire as ``model``; ``base_url`` is where requests go, None where none do;
    ``max_output_tokens`` is the model's own limit for a reply, None where it is not known.

    What a model may have besides: ``prices``, what it costs (:class:`brida.core.prices.Prices`), where it
    knows; ``caches_prompts``, whether it takes marks for the prompt cache; ``count_tokens(request)``, async,
    the tokens of a request as the server counts them, None where it cannot; ``takes_images``.
    """

    @property
    def name(self) -> str: ...
    @property
    def base_url(self) -> str | None: ...
    @property
    def max_output_tokens(self) -> int | None: ...

    async def complete(self, request: Request, on_delta: OnDelta) -> Reply:
        """Makes *one* attempt and gives the whole reply.

        Raises :class:`brida.errors.ModelFault` where there is no whole reply; nothing is retried here.
        Cancelling ends the attempt at once and frees its connection.
        """
        ...

    async def close(self) -> None:
        """Frees what belongs to the running event loop. The model can be used again afterwards."""
        ...


async def close_quietly(model: Model) -> None:
    """Closes a model at the end: what it raises, and what it does after a second, changes no outcome."""
    with suppress(Exception):
        async with asyncio.timeout(1):
            await model.close()
