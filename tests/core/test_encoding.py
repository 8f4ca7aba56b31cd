"""Bytes for the wire, and the canonical form that tells whether two calls ask for the same."""

import json
import math

import pytest
from hypothesis import given

from brida.core.encoding import canonical, digest, encode
from support.strategies import json_objects, json_values, respelled, texts


def typed(value):
    """The value with its types, so that 1, 1.0 and True are three."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value).__name__, repr(value)


@given(json_values)
def test_what_is_encoded_comes_back(value):
    assert typed(json.loads(encode(value))) == typed(value)


def test_the_wire_keeps_the_order_of_keys_and_writes_text_as_it_is():
    assert encode({"b": "é", "a": [1, 2]}) == '{"b":"é","a":[1,2]}'.encode()


def test_half_a_surrogate_pair_is_written_as_an_escape():
    assert encode({"t": "a\ud83db"}) == b'{"t":"a\\ud83db"}'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_have_is_a_bug_of_the_caller(value):
    with pytest.raises(ValueError, match="JSON"):
        encode([value])


@given(respelled())
def test_the_order_of_keys_never_matters(pair):
    one, other = pair
    assert canonical(one) == canonical(other)
    assert digest("t", one) == digest("t", other)


@given(json_objects, json_objects)
def test_different_arguments_differ_and_equal_ones_do_not(one, other):
    same = typed(one) == typed(other)
    assert (canonical(one) == canonical(other)) is same
    assert (digest("t", one) == digest("t", other)) is same


@pytest.mark.parametrize("one, other", [(1, 1.0), (1, True), (0, False), ("1", 1), (None, "null"), ([], {})])
def test_values_that_python_or_a_reader_confuses_are_not_the_same_arguments(one, other):
    assert canonical({"a": one}) != canonical({"a": other})


@given(texts, texts, json_objects)
def test_the_same_arguments_to_another_tool_have_another_digest(one, other, arguments):
    assert (digest(one, arguments) == digest(other, arguments)) is (one == other)
