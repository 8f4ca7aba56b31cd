"""What tokens cost. Tokens and money are one mechanism: a meter that prices the counters of a reply.

For the token budget every price is 1; for the cost budget they are US dollars, as exact decimals.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

from brida.core.usage import Usage

Number: TypeAlias = int | Decimal
MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Meter:
    """Prices each counter of a :class:`Usage`, for one token or one search.

    ``above``: the whole input, in tokens, above which it holds for all of the request.
    """

    input: Number
    output: Number
    cache_read: Number
    cache_write: Number
    cache_write_1h: Number
    web_search: Number = 0
    above: int = 0

    def __call__(self, usage: Usage) -> Number:
        """What the usage comes to."""
        hour = usage.cache_creation_1h_input_tokens
        return (
            self.input * usage.input_tokens
            + self.output * usage.output_tokens
            + self.cache_read * usage.cache_read_input_tokens
            + self.cache_write * (usage.cache_creation_input_tokens - hour)
            + self.cache_write_1h * hour
            + self.web_search * usage.web_searches
        )

    def dearest(self, cached: bool, for_an_hour: bool) -> Number:
        """The highest price that a token of the input may have; ``cached``: where the cache may be used."""
        if not cached:
            return self.input
        return max(self.input, self.cache_read, self.cache_write, self.cache_write_1h if for_an_hour else 0)


PRICES: Final = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "web_search")
"""The prices of a meter, by name, in its order."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The meters of one model, the one for the smallest input first, and where they are from.

    ``source``: such as a package with its version, or a file. ``date``: the day they were looked up, as
    ISO 8601 writes it.
    """

    tiers: tuple[Meter, ...]
    source: str = ""
    date: str = ""

    def __post_init__(self) -> None:
        if not self.tiers or self.tiers[0].above:
            raise ValueError(f"tiers: expected meters, the first of them for every input, got {self.tiers!r}")

    @classmethod
    def of(
        cls,
        *,
        input: Decimal | str | int,
        output: Decimal | str | int,
        cache_read: Decimal | str | int | None = None,
        cache_write: Decimal | str | int | None = None,
        cache_write_1h: Decimal | str | int | None = None,
        source: str = "code",
        date: str = "",
    ) -> "Prices":
        """Prices in US dollars a million tokens.

        What is not given of the cache: reading costs as much as input, and writing 1.25 times that, 2 times
        for an hour (messages API, prompt caching). A number that is none, or below 0, raises ``ValueError``.
        """
        plain = _dollars("input", input)
        read = plain if cache_read is None else _dollars("cache_read", cache_read)
        five = plain * 5 / 4 if cache_write is None else _dollars("cache_write", cache_write)
        hour = max(plain * 2, five) if cache_write_1h is None else _dollars("cache_write_1h", cache_write_1h)
        return cls((Meter(plain, _dollars("output", output), read, five, hour),), source, date)

    @property
    def dearest(self) -> Meter:
        """The highest price of each counter, for what was spent by requests of sizes that nobody knows."""
        return Meter(*(max(getattr(tier, name) for tier in self.tiers) for name in PRICES))

    @property
    def are_zero(self) -> bool:
        """Whether nothing costs anything."""
        return not any(getattr(self.dearest, name) for name in PRICES)

    def cost(self, usage: Usage) -> Number:
        """What one reply comes to: the size of its input decides the price of all of it."""
        if len(self.tiers) == 1:
            return self.tiers[0](usage)
        return [tier for tier in self.tiers if usage.input > tier.above or not tier.above][-1](usage)

    def worst(self, input_tokens: int, output_tokens: int, *, cached: bool, for_an_hour: bool) -> Number:
        """The most that a request of so many tokens can come to, whatever of it the cache is used for."""
        within = [tier for tier in self.tiers if input_tokens > tier.above or not tier.above]
        return max(tier.dearest(cached, for_an_hour) for tier in within) * input_tokens + (
            max(tier.output for tier in within) * output_tokens
        )


TOKENS: Final = Prices((Meter(1, 1, 1, 1, 1),), "tokens")
"""The prices of the token budget."""

NOTHING: Final = Prices((Meter(*(Decimal(0),) * 5),), "local")
"""The prices of a model that runs in this process."""


def _dollars(name: str, value: Decimal | str | int) -> Decimal:
    try:
        number = Decimal(value)
    except (ArithmeticError, TypeError, ValueError):
        number = Decimal("NaN")
    if isinstance(value, bool | float) or not number.is_finite() or number < 0:
        raise ValueError(f"{name}: expected US dollars a million tokens, from 0, got {value!r}")
    return number / MILLION
