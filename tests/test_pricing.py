# mypy: disable-error-code="union-attr"
"""What a model costs, as the package of prices knows its name, and what has no price that holds."""

import sys
import tomllib
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest

from brida import ConfigurationError, Limits, ScriptedModel
from brida import pricing as module
from brida.core.prices import MILLION, NOTHING, Prices
from brida.core.usage import Usage
from brida.core.wording import english
from brida.pricing import (
    _meter,
    _thresholds,
    check_bounded,
    known_prices,
    package_prices,
    per_million,
    price_is_unknown,
    refused_by_extra,
)
from brida.texts.catalogue import ENGLISH

MINE = Prices.of(input="1", output="2")


@pytest.fixture(autouse=True)
def _nothing_cached():
    module._package_prices.cache_clear()
    yield
    module._package_prices.cache_clear()


def served(name, prices=None):
    return SimpleNamespace(name=name, base_url="http://127.0.0.1:1", prices=prices)


def found(**fields):
    """What the package says of a model."""
    return SimpleNamespace(**fields)


def tiered(base, *tiers):
    from genai_prices.types import Tier, TieredPrices

    return TieredPrices(base=Decimal(base), tiers=[Tier(start=start, price=Decimal(p)) for start, p in tiers])


# --- the package ------------------------------------------------------------------------------------------


def test_the_reply_of_the_field_case_costs_what_it_did():
    usage = Usage(input_tokens=3, cache_creation_input_tokens=12_304, output_tokens=550)
    assert package_prices("claude-sonnet-4-5").cost(usage) == Decimal("0.054399")


def test_above_200_000_tokens_all_of_the_request_costs_more():
    prices = package_prices("claude-sonnet-4-5")
    assert [tier.above for tier in prices.tiers] == [0, 200_000]
    assert prices.cost(Usage(input_tokens=200_000, output_tokens=10)) == Decimal("0.60015")
    assert prices.cost(Usage(input_tokens=200_001, output_tokens=10)) == Decimal("1.200231")
    cached = Usage(input_tokens=1, cache_read_input_tokens=200_000, output_tokens=10)
    assert prices.cost(cached) == Decimal("0.120231")


def test_a_price_that_has_changed_is_the_one_of_today():
    assert [tier.above for tier in package_prices("claude-sonnet-4-6").tiers] == [0]


@pytest.mark.parametrize("name", ["claude-sonnet-4-5-20250929", "claude-opus-4-5-20251101"])
def test_a_name_with_a_date_costs_what_the_model_costs(name):
    assert package_prices(name).tiers == package_prices(name.rpartition("-")[0]).tiers


@pytest.mark.parametrize(
    "name",
    ["gpt-4o", "gemini-2.5-pro", "my-claude-sonnet-4-5", "claude", "claude-sonnet-99", "local", "", "\ud800"],
)
def test_a_name_of_no_model_of_anthropics_has_no_price(name):
    assert package_prices(name) is None


def test_a_price_says_where_and_when_it_was_looked_up():
    from genai_prices import __version__

    before = datetime.now(UTC).date().isoformat()
    prices = package_prices("claude-sonnet-4-5")
    assert prices.source == f"genai-prices {__version__}"
    assert before <= prices.date <= datetime.now(UTC).date().isoformat()


def test_a_price_is_looked_up_once_a_day():
    assert package_prices("claude-sonnet-4-5") is package_prices("claude-sonnet-4-5")
    today = datetime.now(UTC).date().isoformat()
    assert module._package_prices("claude-sonnet-4-5", today) is not module._package_prices(
        "claude-sonnet-4-5", "2026-01-01"
    )


@pytest.mark.parametrize("error", [RuntimeError, KeyError, OSError, LookupError])
def test_where_the_package_fails_the_price_is_not_known(monkeypatch, error):
    def fails(*_, **__):
        raise error("broken")

    monkeypatch.setattr("genai_prices.calc_price", fails)
    assert package_prices("claude-sonnet-4-5") is None


def test_without_the_package_the_price_is_not_known(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert package_prices("claude-sonnet-4-5") is None


def test_prices_of_the_cache_that_the_package_lacks_follow_from_the_input():
    plain = found(input_mtok=Decimal(4), output_mtok=Decimal(8))
    assert _meter(plain, 0) == Prices.of(input="4", output="8").tiers[0]


def test_an_hour_in_the_cache_is_never_cheaper_than_five_minutes():
    odd = found(input_mtok=Decimal(1), output_mtok=Decimal(1), cache_write_mtok=Decimal(9))
    assert _meter(odd, 0).cache_write_1h == Decimal(9) / MILLION


def test_fields_may_have_tiers_that_begin_elsewhere():
    model = found(input_mtok=tiered(1, (100, 2), (300, 3)), output_mtok=tiered(5, (200, 6)))
    assert _thresholds(model) == [100, 200, 300]
    tiers = [_meter(model, above) for above in (0, 100, 200, 300)]
    assert [(tier.input * MILLION, tier.output * MILLION) for tier in tiers] == [
        (1, 5),
        (2, 5),
        (2, 6),
        (3, 6),
    ]


def test_a_model_without_a_price_of_output_has_none(monkeypatch):
    half = SimpleNamespace(model_price=found(input_mtok=Decimal(1)))
    monkeypatch.setattr("genai_prices.calc_price", lambda *_, **__: half)
    assert package_prices("claude-sonnet-4-5") is None


def test_searches_are_priced_one_by_one():
    assert package_prices("claude-sonnet-4-5").cost(Usage(web_searches=3)) == Decimal("0.03")


# --- whose price counts -----------------------------------------------------------------------------------


def test_what_was_said_beats_the_model_and_the_package():
    own = {"claude-sonnet-4-5": MINE}
    assert known_prices(served("claude-sonnet-4-5"), own) is MINE
    assert known_prices(served("claude-sonnet-4-5", NOTHING), own) is MINE


def test_what_the_model_says_beats_the_package():
    assert known_prices(served("claude-sonnet-4-5", NOTHING), {}) is NOTHING


def test_what_nobody_said_is_looked_up_by_name():
    model = served("claude-sonnet-4-5")
    assert known_prices(model, {"other": MINE}) == package_prices("claude-sonnet-4-5")
    assert known_prices(served("my-model"), {"other": MINE}) is None


def test_a_model_that_is_no_server_is_not_looked_up():
    assert known_prices(ScriptedModel([], name="claude-sonnet-4-5"), {}) is None


# --- what no price holds for ------------------------------------------------------------------------------

REFUSED = [
    ("mcp_servers", [{"name": "x"}]),
    ("context_management", {"edits": []}),
    ("compaction", {"x": 1}),
    ("fallbacks", ["m"]),
    ("container", "c"),
    ("speed", "fast"),
    ("service_tier", "auto"),
    ("service_tier", "priority"),
    ("inference_geo", "us"),
]


@pytest.mark.parametrize("field, value", REFUSED)
def test_a_field_that_changes_the_price_is_named(field, value):
    assert refused_by_extra({"temperature": 1, field: value}) == (field,)


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"temperature": 0.5},
        {"speed": "standard"},
        {"service_tier": "standard_only"},
        {"speed": None, "service_tier": None, "inference_geo": None},
        {"mcp_servers": [], "container": None},
    ],
)
def test_other_fields_leave_the_price_as_it_is(extra):
    assert refused_by_extra(extra) == ()
    check_bounded("m", MINE, extra, Limits(max_cost=1), ENGLISH)


def test_every_field_that_changes_the_price_is_named():
    assert refused_by_extra(dict(REFUSED)) == (*module.UNBOUNDED, *module.OTHERWISE_PRICED)


@pytest.mark.parametrize("field, value", REFUSED)
def test_a_limit_of_money_is_refused_with_such_a_field_unless_the_person_says_so(field, value):
    with pytest.raises(ConfigurationError, match=f"max_cost: with {field} in extra"):
        check_bounded("m", MINE, {field: value}, Limits(max_cost=1), ENGLISH)
    check_bounded("m", MINE, {field: value}, Limits(max_cost=1, server_tools=True), ENGLISH)


@pytest.mark.parametrize("server_tools", [True, False])
def test_a_limit_of_money_is_refused_where_the_price_is_not_known(server_tools):
    with pytest.raises(ConfigurationError, match="the price of my-model is not known"):
        check_bounded("my-model", None, {}, Limits(max_cost=1, server_tools=server_tools), ENGLISH)


def test_the_refusal_shows_the_three_lines_to_write():
    lines = str(price_is_unknown("my-model", ENGLISH)).splitlines()
    assert [line.strip() for line in lines[-3:]] == ['[prices."my-model"]', "input = 3.00", "output = 15.00"]


@pytest.mark.parametrize("name", ["my-model", "gpt-4.1", 'a "b" \\c', "modelo-ñ", "line\nbreak"])
def test_the_lines_to_write_are_right_for_any_name(name):
    import tomllib

    from brida.settings.schema import checked

    example = price_is_unknown(name, ENGLISH).example
    read = checked(tomllib.loads(example), "brida.toml", ENGLISH)["prices"]
    assert read == {name: {"input": Decimal("3.0"), "output": Decimal("15.0")}}


def test_prices_are_shown_as_a_file_writes_them():
    prices = Prices.of(input="3.00", output=150, cache_read="0.30", cache_write="1E-7")
    shown = {"input": "3", "output": "150", "cache_read": "0.3", "cache_write": "0.0000001"}
    assert per_million(prices) == shown


def test_the_lines_to_write_are_toml_whatever_the_model_is_called():
    for name in ("a\x7fb", 'a"b', "a\\b", "ñ\u2028", "a\nb"):
        example = price_is_unknown(name, english).example
        assert tomllib.loads(example)["prices"] == {name: {"input": 3.0, "output": 15.0}}
