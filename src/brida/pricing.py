"""What a model costs: as was said, as it says itself, or as the package ``genai-prices`` knows its name.

The package carries its data with it, so nothing is fetched. Only prices of Anthropic's models are taken from
it. A price that nobody knows is no price: with a limit of money, the run does not start.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from brida.core.limits import Limits
from brida.core.prices import MILLION, Meter, Prices
from brida.core.wording import Say
from brida.errors import ConfigurationError

if TYPE_CHECKING:
    from brida.models.base import Model

PROVIDER: Final = "anthropic"
FAMILY: Final = "claude"
"""What the names of all of the provider's models hold."""

UNBOUNDED: Final = ("mcp_servers", "context_management", "compaction", "fallbacks", "container")
"""Fields of a request with which the server does work that ``max_tokens`` does not bound."""

OTHERWISE_PRICED: Final[Mapping[str, tuple[object, ...]]] = {
    "speed": ("standard", None),
    "service_tier": ("standard_only", None),
    "inference_geo": (None,),
}
"""Fields of a request that change its price, and the values with which they do not."""


def known_prices(model: "Model", own: Mapping[str, Prices]) -> Prices | None:
    """What the model costs; None where nobody knows. ``own``: what was said, by name of model."""
    if model.name in own:
        return own[model.name]
    given: Prices | None = getattr(model, "prices", None)
    return given if given is not None or model.base_url is None else package_prices(model.name)


def package_prices(name: str) -> Prices | None:
    """What the package knows of a model of Anthropic's, as of today; None where it knows none so named."""
    if FAMILY not in name:
        return None  # and the package, which takes a while to import, stays out of it
    return _package_prices(name, datetime.now(UTC).date().isoformat())


@lru_cache(maxsize=64)
def _package_prices(name: str, date: str) -> Prices | None:
    try:
        from genai_prices import Usage, __version__, calc_price

        found = calc_price(Usage(input_tokens=1), model_ref=name, provider_id=PROVIDER).model_price
        tiers = tuple(_meter(found, above) for above in (0, *_thresholds(found)))
        return Prices(tiers, f"genai-prices {__version__}", date)
    except Exception:  # whatever fails in there, the price is not known
        return None


_FIELDS: Final = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok")


def _thresholds(found: Any) -> list[int]:
    """The sizes of the input from which on other prices hold."""
    tiered = [getattr(found, name, None) for name in _FIELDS]
    return sorted({tier.start for price in tiered for tier in getattr(price, "tiers", ())})


def _meter(found: Any, above: int) -> Meter:
    """The prices of an input above so many tokens; what is not known of the cache follows from them."""
    values = [_price(getattr(found, name, None), above) for name in _FIELDS]
    plain, output, read, five, hour = values
    if plain is None or output is None:
        raise LookupError("no price")
    written = plain * 5 / 4 if five is None else five
    searches = getattr(found, "web_searches_kcount", None)
    return Meter(
        plain / MILLION,
        output / MILLION,
        (plain if read is None else read) / MILLION,
        written / MILLION,
        (max(plain * 2, written) if hour is None else hour) / MILLION,
        0 if searches is None else Decimal(searches) / 1_000,
        above,
    )


def _price(price: Any, above: int) -> Decimal | None:
    if price is None or isinstance(price, Decimal):
        return price
    held = [tier.price for tier in price.tiers if tier.start <= above and above]
    return Decimal(held[-1] if held else price.base)


def refused_by_extra(extra: Mapping[str, object]) -> tuple[str, ...]:
    """The fields of a request with which the price of its reply is not known, or bounded by nothing.

    ``service_tier``: only ``standard_only`` has the known price for sure; ``auto`` may take another tier.
    """
    changed = (name for name, free in OTHERWISE_PRICED.items() if name in extra and extra[name] not in free)
    return (*(name for name in UNBOUNDED if extra.get(name)), *changed)


def per_million(prices: Prices) -> dict[str, str]:
    """The prices of the smallest input, in US dollars a million tokens, by their names in a file."""
    first = prices.tiers[0]
    return {
        name: f"{(Decimal(getattr(first, name)) * MILLION).normalize():f}"
        for name in ("input", "output", "cache_read", "cache_write")
    }


def check_bounded(
    model: str, prices: Prices | None, extra: Mapping[str, object], limits: Limits, say: Say
) -> None:
    """That a limit of money can be held. Raises :class:`ConfigurationError` where a price is not known."""
    if prices is None:
        raise price_is_unknown(model, say)
    if limits.server_tools:
        return
    if refused := refused_by_extra(extra):
        words = say(
            "max_cost: with {field} in extra, nothing bounds what a reply costs; leave it out, or say "
            "server_tools = true, and the limit is no ceiling any more",
            field=refused[0],
        )
        raise ConfigurationError(words)


def price_is_unknown(model: str, say: Say) -> ConfigurationError:
    """That a limit of money cannot be held, with the lines to write where the price is known to a person."""
    words = say(
        "max_cost: the price of {model} is not known, so nothing can be held against a limit of money. Write "
        "it into brida.toml, in US dollars a million tokens, with the right numbers:",
        model=model,
    )
    # TOML takes this character as an escape alone, and JSON leaves it as it is.
    name = json.dumps(model, ensure_ascii=False).replace("\x7f", "\\u007f")
    return ConfigurationError(words, example=f"[prices.{name}]\ninput = 3.00\noutput = 15.00")
