"""The table of settings, its variables, and the JSON Schema that is made of it."""

import re

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.core.limits import Limits
from brida.errors import ConfigurationError
from brida.settings.schema import json_schema
from brida.settings.table import BY_KEY, BY_VARIABLE, SETTINGS, is_no_looser
from brida.settings.variables import read_variables
from brida.texts.catalogue import ENGLISH
from support.settings import nested, right_value, some_settings
from support.strategies import json_values

SCHEMA = jsonschema.Draft202012Validator(json_schema())
KEYS = st.sampled_from(sorted(BY_KEY))


def test_every_limit_is_a_setting_with_the_default_of_the_code():
    limits = {
        row.key.removeprefix("limits."): row.default for row in SETTINGS if row.key.startswith("limits.")
    }
    assert limits == {name: getattr(Limits(), name) for name in Limits.__slots__}


def test_each_flag_and_each_variable_is_of_one_setting():
    flags = [row.flag for row in SETTINGS if row.flag]
    assert len(set(flags)) == len(flags)
    assert len(BY_VARIABLE) == len(BY_KEY) == len(SETTINGS)


@given(data=st.data(), key=KEYS)
def test_no_looser_is_an_order(data, key):
    def value():
        checked = BY_KEY[key].kind.check(data.draw(right_value(key)))
        return 46 if key == "limits.max_requests" and checked is None else checked

    one, two, three = value(), value(), value()
    assert is_no_looser(key, one, one)
    if is_no_looser(key, one, two) and is_no_looser(key, two, three):
        assert is_no_looser(key, one, three)


# --- the JSON Schema --------------------------------------------------------------------------------------


def test_the_schema_is_one_of_draft_2020_12():
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert json_schema()["$schema"].endswith("2020-12/schema")


@given(settings=some_settings(), agent=st.none() | some_settings())
def test_an_editor_accepts_every_file_that_is_right(settings, agent):
    table = nested(settings) if agent is None else {**nested(settings), "agents": {"a-1": nested(agent)}}
    assert [error.message for error in SCHEMA.iter_errors(table)] == []


@given(key=KEYS, value=json_values)
def test_what_an_editor_accepts_is_right(key, value):
    address = key == "base_url"  # its rules are more than a pattern says
    written_as_float = isinstance(value, float) and value.is_integer()  # JSON Schema takes 1.0 for an integer
    if SCHEMA.is_valid(nested({key: value})) and not address and not written_as_float:
        BY_KEY[key].kind.check(value)


@pytest.mark.parametrize(
    "table", [{"modle": "x"}, {"limits": {"max_cosst": 1}}, {"agents": {"a": {"agents": {}}}}]
)
def test_an_editor_marks_an_unknown_key(table):
    assert not SCHEMA.is_valid(table)


# --- variables --------------------------------------------------------------------------------------------


def read(**environ):
    layer = read_variables(environ, ENGLISH)
    return {key: (one.value, one.source.name) for key, one in layer.items()}


def test_each_kind_of_setting_can_be_a_variable():
    values = read(
        BRIDA_MODEL="m",
        BRIDA_TOOLS="none, get_time,,mine:tools ",
        BRIDA_MAX_TURNS="3",
        BRIDA_MAX_CALLS="off",
        BRIDA_DEADLINE="2.5",
        BRIDA_NO_PROGRESS="false",
        BRIDA_CLOSING_REPLY="on",
        BRIDA_DENY="delete_*,x",
        BRIDA_POLICY_DEFAULT="deny",
        BRIDA_LANGUAGE="pt_BR",
    )
    assert {key: value for key, (value, _) in values.items()} == {
        "model": "m",
        "tools": ("none", "get_time", "mine:tools"),
        "limits.max_turns": 3,
        "limits.max_calls": None,
        "limits.deadline": 2.5,
        "limits.no_progress": False,
        "limits.closing_reply": 1024,
        "policy.deny": ("delete_*", "x"),
        "policy.default": "deny",
        "language": "pt",
    }
    assert values["policy.deny"][1] == "BRIDA_DENY"


@pytest.mark.parametrize(
    "name,words", [("MAX_TRUNS", "means nothing; did you mean BRIDA_MAX_TURNS?"), ("QUUX", "means nothing")]
)
def test_an_unknown_variable_is_refused_with_the_nearest_one(name, words):
    with pytest.raises(ConfigurationError, match=f"the variable BRIDA_{name} {re.escape(words)}"):
        read(**{f"BRIDA_{name}": "3"}, OTHER="x")


def test_an_empty_variable_says_nothing():
    assert read(BRIDA_MODEL="", BRIDA_TOOLS="", ANTHROPIC_BASE_URL="") == {}


def test_the_variable_of_the_sdk_is_beaten_by_ours():
    theirs, ours = "http://127.0.0.1:1", "http://127.0.0.1:2"
    assert read(ANTHROPIC_BASE_URL=theirs)["base_url"] == (theirs, "ANTHROPIC_BASE_URL")
    both = read(BRIDA_BASE_URL=ours, ANTHROPIC_BASE_URL=theirs)
    assert both["base_url"] == (ours, "BRIDA_BASE_URL")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("BRIDA_MAX_TURNS", "many", 'BRIDA_MAX_TURNS: expected a whole number of at least 0, got "many"'),
        ("BRIDA_DEADLINE", "-1", 'BRIDA_DEADLINE: expected a number of seconds above 0, or off, got "-1"'),
        ("BRIDA_MODEL", "\udcff", "BRIDA_MODEL: expected a name that is not blank"),
        ("BRIDA_BASE_URL", "me:sk-ant-canary@x", 'an address such as http://127.0.0.1:8080, got "x"'),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_named_with_its_value_and_what_would_be_right(name, value, words):
    with pytest.raises(ConfigurationError) as caught:
        read(**{name: value})
    assert words in str(caught.value)
    assert "canary" not in str(caught.value)


@given(name=st.sampled_from(sorted(BY_VARIABLE)), text=st.text(max_size=20))
def test_any_text_of_a_variable_is_read_or_refused_in_words(name, text):
    said = name
    try:
        read(**{name: text})
    except ConfigurationError as error:
        said = str(error)
    assert said.startswith(name)
