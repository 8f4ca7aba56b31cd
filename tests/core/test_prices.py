"""What tokens cost: exactly, and never more than the worst that was reckoned with."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.core.prices import NOTHING, TOKENS, Meter, Prices
from brida.core.usage import Usage

MOST = 10**7
a_price = st.integers(0, 10**9).map(lambda micro: Decimal(micro) / 10**12)


def meter(prices, above):
    plain, output, read, five, hour = prices
    return Meter(plain, output, read, five, hour, above=above)


@st.composite
def some_prices(draw):
    """Prices with up to three tiers, dearer or cheaper above: nothing says that a larger input costs more."""
    above = sorted(draw(st.sets(st.integers(1, MOST), max_size=2)))
    return Prices(tuple(meter([draw(a_price) for _ in range(5)], start) for start in (0, *above)))


@st.composite
def within(draw, input_tokens, output_tokens, *, cached, for_an_hour):
    """A usage of no more than so many tokens, whatever part of the input the cache was used for."""
    whole = draw(st.integers(0, input_tokens))
    written = draw(st.integers(0, whole)) if cached else 0
    read = draw(st.integers(0, whole - written)) if cached else 0
    hour = draw(st.integers(0, written)) if for_an_hour else 0
    return Usage(
        input_tokens=whole - written - read,
        output_tokens=draw(st.integers(0, output_tokens)),
        cache_creation_input_tokens=written,
        cache_read_input_tokens=read,
        cache_creation_1h_input_tokens=hour,
    )


# --- the worst case ---------------------------------------------------------------------------------------


@given(
    data=st.data(),
    prices=some_prices(),
    most=st.integers(0, MOST),
    reply=st.integers(0, 10**6),
    cached=st.booleans(),
    hour=st.booleans(),
)
def test_no_usage_within_the_bounds_costs_more_than_the_worst(data, prices, most, reply, cached, hour):
    usage = data.draw(within(most, reply, cached=cached, for_an_hour=cached and hour))
    worst = prices.worst(most, reply, cached=cached, for_an_hour=cached and hour)
    assert prices.cost(usage) <= worst


@given(data=st.data(), prices=some_prices(), tokens=st.integers(0, MOST), reply=st.integers(0, 10**6))
def test_a_larger_request_never_has_a_smaller_worst(data, prices, tokens, reply):
    fewer, shorter = data.draw(st.integers(0, tokens)), data.draw(st.integers(0, reply))
    flags = {"cached": data.draw(st.booleans()), "for_an_hour": data.draw(st.booleans())}
    assert prices.worst(fewer, shorter, **flags) <= prices.worst(tokens, reply, **flags)


def test_the_worst_takes_the_dearest_tier_that_the_request_can_reach():
    cheaper_above = Prices((Meter(5, 5, 5, 5, 5), Meter(1, 9, 1, 1, 1, 0, 100)))
    assert cheaper_above.worst(100, 10, cached=False, for_an_hour=False) == 550
    assert cheaper_above.worst(101, 10, cached=False, for_an_hour=False) == 505 + 90


@pytest.mark.parametrize(
    "cached, for_an_hour, dearest", [(False, False, 1), (True, False, 3), (True, True, 4)]
)
def test_the_worst_of_the_input_is_what_the_cache_may_make_of_it(cached, for_an_hour, dearest):
    prices = Prices((Meter(1, 0, 2, 3, 4),))
    assert prices.worst(10, 7, cached=cached, for_an_hour=for_an_hour) == dearest * 10


def test_reading_the_cache_may_be_the_dearest():
    assert Prices((Meter(1, 0, 9, 3, 4),)).worst(10, 0, cached=True, for_an_hour=False) == 90


# --- the cost ---------------------------------------------------------------------------------------------


def test_every_counter_has_its_own_price():
    meter = Meter(1, 10, 100, 1_000, 10_000, 100_000)
    usage = Usage(
        input_tokens=2,
        output_tokens=3,
        cache_read_input_tokens=4,
        cache_creation_input_tokens=11,
        cache_creation_1h_input_tokens=6,
        web_searches=7,
    )
    assert meter(usage) == 2 + 30 + 400 + 5_000 + 60_000 + 700_000


def test_parts_of_other_counters_are_not_paid_twice():
    whole = Usage(input_tokens=5, output_tokens=5)
    parts = Usage(input_tokens=5, output_tokens=5, thinking_tokens=5, compaction_tokens=5)
    assert TOKENS.cost(parts) == TOKENS.cost(whole) == 10


@pytest.mark.parametrize("tokens, cost", [(0, 0), (100, 100), (101, 202), (200, 400), (201, 603)])
def test_the_size_of_the_input_decides_the_price_of_all_of_it(tokens, cost):
    prices = Prices((Meter(*(1,) * 5), Meter(*(2,) * 5, 0, 100), Meter(*(3,) * 5, 0, 200)))
    assert prices.cost(Usage(input_tokens=tokens)) == cost
    assert prices.cost(Usage(cache_read_input_tokens=tokens)) == cost


def test_the_price_of_the_token_budget_is_one():
    usage = Usage(1, 2, 4, 8, cache_creation_1h_input_tokens=3)
    assert TOKENS.cost(usage) == usage.total == 15


def test_what_runs_in_this_process_costs_nothing():
    assert NOTHING.cost(Usage(10**9, 10**9, 10**9, 10**9)) == 0
    assert NOTHING.are_zero


@pytest.mark.parametrize("field", ["input", "output", "cache_read", "cache_write", "cache_write_1h"])
def test_one_price_is_enough_to_cost_something(field):
    dollars: dict = {"input": 0, "output": 0, "cache_write": 0, field: "0.01"}
    assert not Prices.of(**dollars).are_zero


# --- dollars a million tokens -----------------------------------------------------------------------------


def test_dollars_a_million_tokens_are_exact():
    prices = Prices.of(input="3.00", output=15, cache_write=Decimal("3.75"), cache_read="0.30")
    usage = Usage(input_tokens=3, cache_creation_input_tokens=12_304, output_tokens=550)
    assert prices.cost(usage) == Decimal("0.054399")
    assert prices.tiers[0].cache_read == Decimal("0.0000003")


def test_prices_of_the_cache_that_are_not_given_follow_from_the_input():
    (meter,) = Prices.of(input="4", output="8").tiers
    assert (meter.cache_read, meter.cache_write, meter.cache_write_1h) == (
        Decimal("0.000004"),
        Decimal("0.000005"),
        Decimal("0.000008"),
    )


def test_an_hour_in_the_cache_is_never_cheaper_than_five_minutes():
    (meter,) = Prices.of(input="1", output="1", cache_write="9").tiers
    assert meter.cache_write_1h == meter.cache_write
    (given_,) = Prices.of(input="1", output="1", cache_write="9", cache_write_1h="3").tiers
    assert given_.cache_write_1h == Decimal("0.000003")


def test_prices_say_where_they_are_from():
    prices = Prices.of(input=1, output=1, source="brida.toml", date="2026-12-01")
    assert (prices.source, prices.date) == ("brida.toml", "2026-12-01")
    assert Prices.of(input=1, output=1).source == "code"


@pytest.mark.parametrize("name", ["input", "output", "cache_read", "cache_write", "cache_write_1h"])
@pytest.mark.parametrize("value", [-1, "-0.01", "NaN", "Infinity", "dear", "", True, 0.1, [], Decimal("-1")])
def test_what_is_no_price_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"^{name}: expected US dollars a million tokens, from 0, got "):
        Prices.of(**{"input": 1, "output": 1, name: value})


@pytest.mark.parametrize("tiers", [(), (Meter(1, 1, 1, 1, 1, 0, 100),)])
def test_prices_hold_for_every_input(tiers):
    with pytest.raises(ValueError, match=r"^tiers: expected meters, the first of them for every input"):
        Prices(tiers)
