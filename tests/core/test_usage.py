"""Counters: added once, never taken for zero where they are missing or lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.core.prices import TOKENS, Meter
from brida.core.usage import Usage, read_partial_usage, read_usage

COUNTERS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
ODD: tuple = (None, -1, True, False, 1.0, "7", [], {})
good = st.integers(0, 10**12)
counters = st.fixed_dictionaries(
    {}, optional={name: good | st.sampled_from(ODD) for name in (*COUNTERS, "new_counter")}
)


def read(raw):
    """The usage of a reply of 100 bytes to a request of 1,000."""
    return read_usage(
        raw, most_input=1_000, most_output=4_000, reply=({"type": "text", "text": "é" * 36 + "x"},)
    )


def test_the_servers_counters_are_taken_as_they_are():
    raw = dict(zip(COUNTERS, (3, 550, 12_304, 7), strict=True))
    usage = read(raw)
    assert usage == Usage(3, 550, 12_304, 7, complete=True)
    assert usage.total == 3 + 550 + 12_304 + 7


def test_counters_of_the_cache_may_be_left_out():
    assert read({"input_tokens": 1, "output_tokens": 2}) == Usage(1, 2)
    assert read({"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": None}) == Usage(1, 2)


@pytest.mark.parametrize("raw", [None, {}, {"new_counter": 3}])
def test_without_usage_a_token_is_counted_for_each_byte(raw):
    assert read(raw) == Usage(1_000, 100, complete=False)


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_input_counts_the_bytes_of_the_request(odd):
    assert read({"input_tokens": odd, "output_tokens": 5}) == Usage(1_000, 5, complete=False)


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_output_counts_the_bytes_of_the_reply(odd):
    assert read({"input_tokens": 5, "output_tokens": odd}) == Usage(5, 100, complete=False)


@pytest.mark.parametrize("name", COUNTERS[2:])
@pytest.mark.parametrize("odd", ODD[1:])
def test_an_odd_counter_of_the_cache_makes_the_whole_input_an_upper_bound(name, odd):
    raw = {"input_tokens": 5, "output_tokens": 5, "cache_read_input_tokens": 3, name: odd}
    assert read(raw) == Usage(1_000, 5, complete=False)


def test_large_counters_are_counted_exactly_and_larger_ones_are_no_counts():
    assert read({"input_tokens": 10**15, "output_tokens": 1}).total == 10**15 + 1
    assert read({"input_tokens": 10**15 + 1, "output_tokens": 1}) == Usage(1_000, 1, complete=False)


@given(counters)
def test_no_counter_is_ever_negative_and_a_guess_is_never_called_complete(raw):
    usage = read(raw)
    assert min(usage.input_tokens, usage.output_tokens, usage.total) >= 0
    sound = all(
        (type(raw.get(name)) is int and raw[name] >= 0)
        or (name.startswith("cache") and raw.get(name) is None)
        for name in COUNTERS
    )
    assert usage.complete is sound
    if sound:
        assert usage.total == sum(raw.get(name) or 0 for name in COUNTERS)


@given(counters, st.booleans())
def test_of_a_lost_attempt_what_is_known_counts(raw, billed):
    usage = read_partial_usage(raw, billed=billed)
    known = [raw[n] for n in COUNTERS if type(raw.get(n)) is int and raw[n] >= 0]
    assert usage.total == sum(known)
    assert usage.complete is not billed


def test_of_a_lost_attempt_nothing_may_be_known():
    assert read_partial_usage(None, billed=False) == Usage()


def test_a_later_attempt_never_erases_what_is_known():
    total = Usage(1, 2, 3, 4, complete=False) + Usage(10, 20, 30, 40)
    assert total == Usage(11, 22, 33, 44, complete=False)
    assert Usage() + Usage() == Usage()


def test_a_meter_prices_each_counter():
    usage = Usage(1, 2, 7, 4, cache_creation_1h_input_tokens=2, web_searches=6)
    assert Meter(1, 10, 100, 1_000, 10_000, 100_000)(usage) == 625_421
    assert TOKENS.cost(Usage(1, 2, 3, 4)) == 10


def test_a_reply_without_a_count_has_no_more_than_was_asked_for():
    words = ({"type": "text", "text": "x" * 900},)
    assert read_usage(None, most_input=10, most_output=50, reply=words) == Usage(10, 50, complete=False)


def test_what_is_a_part_of_another_counter_is_kept_apart():
    raw = {
        "input_tokens": 5,
        "output_tokens": 100,
        "cache_creation_input_tokens": 60,
        "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 20},
        "output_tokens_details": {"thinking_tokens": 70},
        "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 3, "odd": "x"},
    }
    usage = read(raw)
    assert (usage.cache_creation_1h_input_tokens, usage.thinking_tokens) == (20, 70)
    assert (usage.web_searches, usage.other_server_tools, usage.total) == (2, 3, 165)


def test_a_part_is_never_more_than_the_whole():
    raw = {"input_tokens": 5, "output_tokens": 1, "output_tokens_details": {"thinking_tokens": 70}}
    usage = read({**raw, "cache_creation": {"ephemeral_1h_input_tokens": 9}})
    assert (usage.thinking_tokens, usage.cache_creation_1h_input_tokens) == (1, 9)
    assert usage.cache_creation_input_tokens == 9  # a part without its whole is counted all the same


@pytest.mark.parametrize("odd", [7, "x", [], {"a": 1}, True])
def test_odd_tables_of_counters_say_nothing(odd):
    tables = dict.fromkeys(("iterations", "cache_creation", "server_tool_use", "output_tokens_details"), odd)
    assert read({"input_tokens": 1, "output_tokens": 2, **tables}).total == 3


def test_a_compaction_is_in_the_iterations_alone():
    iterations = [
        {"type": "compaction", "input_tokens": 900, "output_tokens": 80},
        {"type": "message", "input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3},
        "odd",
    ]
    usage = read({"input_tokens": 10, "output_tokens": 5, "iterations": iterations})
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens) == (910, 85, 3)
    assert usage.compaction_tokens == 980
    assert read({"input_tokens": 0, "output_tokens": 0, "iterations": iterations}).total == 998


def test_iterations_never_make_a_count_smaller():
    raw = {"input_tokens": 100, "output_tokens": 50, "iterations": [{"type": "message", "input_tokens": 1}]}
    assert read(raw).total == 150
