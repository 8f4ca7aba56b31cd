"""What one reply cost in tokens, read once and added once.

The counters of a streaming reply are cumulative, so an adapter overwrites them and hands over the
last ones; here they are added, once for every attempt, kept or not. Counters that are missing or make
no sense are never taken for zero: an upper bound stands in, and the sum is marked incomplete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

from brida.core.encoding import Block, encode


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, summed over attempts.

    The whole input of a request is ``input_tokens`` + ``cache_creation_input_tokens`` +
    ``cache_read_input_tokens``: the API counts what the prompt cache held apart. Parts of others:
    ``cache_creation_1h_input_tokens`` (of what was written, for an hour), ``thinking_tokens`` (of the
    output), ``compaction_tokens`` (of both, for shortening the history). ``web_searches`` and
    ``other_server_tools`` are requests. ``complete`` is False where a counter had to be guessed from bytes
    or an attempt was lost before it was counted: the sum is no more than what is known then.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    complete: bool = True
    cache_creation_1h_input_tokens: int = 0
    thinking_tokens: int = 0
    compaction_tokens: int = 0
    web_searches: int = 0
    other_server_tools: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_creation_input_tokens + other.cache_creation_input_tokens,
            self.cache_read_input_tokens + other.cache_read_input_tokens,
            self.complete and other.complete,
            self.cache_creation_1h_input_tokens + other.cache_creation_1h_input_tokens,
            self.thinking_tokens + other.thinking_tokens,
            self.compaction_tokens + other.compaction_tokens,
            self.web_searches + other.web_searches,
            self.other_server_tools + other.other_server_tools,
        )

    @property
    def input(self) -> int:
        """The whole input, the prompt cache included."""
        return self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens

    @property
    def total(self) -> int:
        """Input, cache included, plus output: what the token budget counts."""
        return self.input + self.output_tokens


COUNTERS: Final = tuple(field.name for field in fields(Usage) if field.name != "complete")
"""The counters, by name; ``complete`` is none."""

MOST: Final = 10**15
"""No reply has so many tokens: a larger counter is no count."""


def _counter(raw: Mapping[str, object], name: str) -> int | None:
    """The counter where it is a count, 0 where the server left an optional one out, None where it lies."""
    value = raw.get(name)
    if value is None:
        return 0 if name not in ("input_tokens", "output_tokens") else None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST:
        return value
    return None


def read_usage(
    raw: Mapping[str, object] | None, *, most_input: int, most_output: int, reply: Sequence[Block]
) -> Usage:
    """The usage of one whole reply, as the server counted it.

    A counter that is missing, negative or no integer is replaced by an upper bound, ``most_input`` or one
    token for each byte of the reply, up to ``most_output``, and the usage is marked incomplete. A reply
    without any usage is the same case for both. Where the server lists ``iterations``, what they come to
    counts: a compaction is in no other number (messages API, usage).
    """
    raw = raw or {}
    tokens_in, tokens_out = _counter(raw, "input_tokens"), _counter(raw, "output_tokens")
    written, read = _written(raw), _counter(raw, "cache_read_input_tokens")
    if tokens_in is None or written is None or read is None:
        tokens_in, written, read, complete = most_input, 0, 0, False
    else:
        complete = tokens_out is not None
    if tokens_out is None:
        tokens_out = min(len(encode(reply)), most_output)
    counted = Usage(tokens_in, tokens_out, written, read, complete)
    return _with_parts(_with_iterations(counted, raw), raw)


def read_partial_usage(raw: Mapping[str, object] | None, *, billed: bool) -> Usage:
    """The usage of an attempt whose reply was lost: what is known of it, a lower bound.

    ``billed`` says whether the server may have charged for it. Where it may, the usage is incomplete
    even when a count is known, since the reply went on after it.
    """
    raw = raw or {}
    known = Usage(
        _counter(raw, "input_tokens") or 0,
        _counter(raw, "output_tokens") or 0,
        _written(raw) or 0,
        _counter(raw, "cache_read_input_tokens") or 0,
        complete=not billed,
    )
    return _with_parts(_with_iterations(known, raw), raw)


def _written(raw: Mapping[str, object]) -> int | None:
    """What was written to the cache: its counter, or its parts where they come to more."""
    whole, table = _counter(raw, "cache_creation_input_tokens"), _table(raw, "cache_creation")
    parts = [_counter(table, f"ephemeral_{time}_input_tokens") or 0 for time in ("5m", "1h")]
    return None if whole is None else max(whole, sum(parts))


_SUMMED: Final = (
    *("input_tokens", "output_tokens"),
    *("cache_creation_input_tokens", "cache_read_input_tokens"),
)


def _with_iterations(counted: Usage, raw: Mapping[str, object]) -> Usage:
    """Each counter as the sum of the iterations, where that is more than the reply's own number."""
    if not raw.get("iterations"):
        return counted
    listed = raw.get("iterations")
    iterations = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    sums = {name: sum(_counter(one, name) or 0 for one in iterations) for name in _SUMMED}
    values = {name: max(getattr(counted, name), sums[name]) for name in _SUMMED}
    compacted = [one for one in iterations if one.get("type") == "compaction"]
    shortening = sum(_counter(one, name) or 0 for one in compacted for name in _SUMMED)
    return Usage(**values, complete=counted.complete, compaction_tokens=shortening)


def _with_parts(counted: Usage, raw: Mapping[str, object]) -> Usage:
    """With the counters that are parts of others, never more than those, and the server's own tools."""
    if not any(raw.get(name) for name in _PARTS):
        return counted
    details, written = _table(raw, "output_tokens_details"), _table(raw, "cache_creation")
    hour = _counter(written, "ephemeral_1h_input_tokens") or 0
    tools = _table(raw, "server_tool_use")
    used = {name: _counter(tools, name) or 0 for name in tools}
    searches = used.pop("web_search_requests", 0)
    return counted + Usage(
        cache_creation_1h_input_tokens=min(hour, counted.cache_creation_input_tokens),
        thinking_tokens=min(_counter(details, "thinking_tokens") or 0, counted.output_tokens),
        web_searches=searches,
        other_server_tools=sum(used.values()),
    )


_PARTS: Final = ("output_tokens_details", "cache_creation", "server_tool_use")


def _table(raw: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = raw.get(name)
    return value if isinstance(value, Mapping) else {}
