"""What one reply cost in tokens, read once and added once.

The counters of a streaming reply are cumulative, so an adapter overwrites them and hands over the
last ones; here they are added, once for every attempt, kept or not. Counters that are missing or make
no sense are never taken for zero: an upper bound stands in, and the sum is marked incomplete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from brida.core.encoding import Block, encode


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, summed over attempts.

    The whole input of a request is ``input_tokens`` + ``cache_creation_input_tokens`` +
    ``cache_read_input_tokens``: the API counts what the prompt cache held apart. ``complete`` is
    False where a counter had to be guessed from bytes or an attempt was lost before it was counted.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    complete: bool = True

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_creation_input_tokens + other.cache_creation_input_tokens,
            self.cache_read_input_tokens + other.cache_read_input_tokens,
            self.complete and other.complete,
        )

    @property
    def total(self) -> int:
        """Input, cache included, plus output: what the token budget counts."""
        return TOKENS(self)


@dataclass(frozen=True, slots=True)
class Meter:
    """Prices the counters of a :class:`Usage`. The token budget is the meter whose every price is 1."""

    input: int
    output: int
    cache_write: int
    cache_read: int

    def __call__(self, usage: Usage) -> int:
        return (
            self.input * usage.input_tokens
            + self.output * usage.output_tokens
            + self.cache_write * usage.cache_creation_input_tokens
            + self.cache_read * usage.cache_read_input_tokens
        )


TOKENS: Final = Meter(1, 1, 1, 1)


MOST: Final = 10**15
"""No reply has so many tokens: a larger counter is no count."""


def _counter(raw: Mapping[str, object], name: str) -> int | None:
    """The counter where it is a count, 0 where the server left an optional one out, None where it lies."""
    value = raw.get(name)
    if value is None:
        return 0 if name.startswith("cache_") else None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST:
        return value
    return None


def read_usage(raw: Mapping[str, object] | None, *, request_bytes: int, reply: Sequence[Block]) -> Usage:
    """The usage of one whole reply, as the server counted it.

    A counter that is missing, negative or no integer is replaced by an upper bound, one token for each
    byte of the request or the reply, and the usage is marked incomplete. A reply without any usage is
    the same case for both.
    """
    raw = raw or {}
    tokens_in, tokens_out = _counter(raw, "input_tokens"), _counter(raw, "output_tokens")
    written = _counter(raw, "cache_creation_input_tokens")
    read = _counter(raw, "cache_read_input_tokens")
    if tokens_in is None or written is None or read is None:
        tokens_in, written, read, complete = request_bytes, 0, 0, False
    else:
        complete = tokens_out is not None
    return Usage(tokens_in, len(encode(reply)) if tokens_out is None else tokens_out, written, read, complete)


def read_partial_usage(raw: Mapping[str, object] | None, *, billed: bool) -> Usage:
    """The usage of an attempt whose reply was lost: what is known of it, a lower bound.

    ``billed`` says whether the server may have charged for it. Where it may, the usage is incomplete
    even when a count is known, since the reply went on after it.
    """
    raw = raw or {}
    return Usage(
        _counter(raw, "input_tokens") or 0,
        _counter(raw, "output_tokens") or 0,
        _counter(raw, "cache_creation_input_tokens") or 0,
        _counter(raw, "cache_read_input_tokens") or 0,
        complete=not billed,
    )
