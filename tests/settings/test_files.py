# mypy: disable-error-code="union-attr"
"""Files of settings: where they are looked for, and what is said of those that make no sense."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.errors import ConfigurationError
from brida.settings import files
from brida.settings.files import find_project_file, read_user_file, user_path
from brida.texts.catalogue import ENGLISH
from support.settings import nested, some_settings, toml
from support.strategies import json_objects


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def refused(directory, text, name="brida.toml"):
    """What is said of a file with this text."""
    write(directory / name, text)
    with pytest.raises(ConfigurationError) as caught:
        find_project_file(directory, ENGLISH)
    return str(caught.value)


# --- finding ----------------------------------------------------------------------------------------------


def test_the_nearest_file_upwards_counts(tmp_path):
    outer = write(tmp_path / "brida.toml", "max_tokens = 1")
    inner = write(tmp_path / "a" / "pyproject.toml", "[tool.brida]\nmax_tokens = 2")
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    assert find_project_file(deep, ENGLISH).path == inner
    assert find_project_file(tmp_path, ENGLISH).path == outer


def test_brida_toml_counts_before_pyproject_toml_beside_it(tmp_path):
    write(tmp_path / "pyproject.toml", "[tool.brida]\nmax_tokens = 2")
    own = write(tmp_path / "brida.toml", "max_tokens = 1")
    assert find_project_file(tmp_path, ENGLISH).path == own


@pytest.mark.parametrize("text", ["", "[project]\nname = 'brida'", "[tool.other]\nx = 1  # brida", "no toml"])
def test_a_pyproject_without_our_table_is_passed_over(tmp_path, text):
    outer = write(tmp_path / "brida.toml", "max_tokens = 1")
    write(tmp_path / "a" / "pyproject.toml", text)
    assert find_project_file(tmp_path / "a", ENGLISH).path == outer


def test_the_users_own_file_is_no_projects(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    write(user_path(), "max_tokens = 7")
    assert read_user_file(ENGLISH).layer["max_tokens"].value == 7
    assert find_project_file(user_path().parent, ENGLISH) is None


def test_without_files_there_are_no_settings(tmp_path):
    assert read_user_file(ENGLISH) is None
    assert find_project_file(tmp_path, ENGLISH) is None


# --- what is wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modle = 'x'", "there is no setting modle; did you mean model?"),
        ("[limits]\nmax_turn = 1", "there is no setting limits.max_turn; did you mean limits.max_turns?"),
        ("max_turns = 1", "there is no setting max_turns; did you mean limits.max_turns?"),
        ("deny = ['x']", "there is no setting deny; did you mean policy.deny?"),
        ("[agents.a]\nmodell = 'x'", "there is no setting agents.a.modell; did you mean model?"),
        ("[agents.a.agents.b]\n", "there is no setting agents.a.agents"),
        ("yes_to = ['x']", "there is no setting yes_to"),
        ("[limits]\nmax_cost = -1", "max_cost: expected US dollars from 0, such as 0.50, or off, got -1"),
        ("[limits]\nmax_cosst = 1.0", "there is no setting limits.max_cosst; did you mean limits.max_cost?"),
        ('"\\u001b[2J" = 1', 'there is no setting "\\u001b[2J"'),
        ("[limits]\nmax_turns = 'x'", 'limits.max_turns: expected a whole number of at least 0, got "x"'),
        ("[limits]\nmax_turns = 'off'", 'limits.max_turns: expected a whole number of at least 0, got "off"'),
        ("[limits]\nmax_calls = true", "expected a whole number of at least 0, or off, got true"),
        ("[limits]\ndeadline = inf", "limits.deadline: expected a number of seconds above 0, or off"),
        ("[limits]\ndeadline = nan", "limits.deadline: expected a number of seconds above 0, or off"),
        ("limits = 3", "limits: expected a table of settings, got 3"),
        ("agents = []", "agents: expected a table of settings, got []"),
        ("tools = 'none'", 'tools: expected a list of texts that are not blank, got "none"'),
        ("[policy]\nallow = ['a b']", "policy.allow: expected a list of tool names, or globs"),
        ("[policy]\ndefault = 'maybe'", 'policy.default: expected allow, ask or deny, got "maybe"'),
        ("model = ' '", 'model: expected a name that is not blank, got " "'),
        ("language = 'de'", 'language: expected en, es or pt, got "de"'),
        ("base_url = 'ftp://x'", "base_url: expected an address such as http://127.0.0.1:8080"),
        ("base_url = 1979-05-27", "base_url: expected an address such as http://127.0.0.1:8080"),
        ("[agents.'a:b']\n", 'agents.a:b: expected a name made of letters, digits, - and _, got "a:b"'),
        ("a = 1\nb =\n", "is no valid TOML: Invalid value (at line 2"),
        ("a = " + "9" * 5000, "is no valid TOML"),
        ("a = " + "[" * 50_000, "is nested too deeply"),
        ("." .join(["a"] * 40_000) + " = 1", "a key in it has more than 32 parts"),
        ('"a" . ' * 40 + "a = 1", "a key in it has more than 32 parts"),
        ("#" * 300_000, "it has more than 262,144 bytes"),
    ],
)  # fmt: skip
def test_an_error_names_the_file_the_key_the_value_and_what_would_be_right(tmp_path, text, words):
    said = refused(tmp_path, text)
    assert said.startswith(f"{tmp_path / 'brida.toml'}")
    assert words.replace('"a:b": ', "a:b: ") in said.replace('agents."a:b"', "agents.a:b")
    assert len(said) < 1_000


def test_a_table_of_pyproject_that_is_none_is_refused(tmp_path):
    assert "tool.brida should be a table" in refused(tmp_path, "[tool]\nbrida = 3", "pyproject.toml")


def test_the_password_of_an_address_is_in_no_error(tmp_path):
    said = refused(tmp_path, "base_url = 'http//me:sk-ant-canary@x?sk-ant-canary'")
    assert "sk-ant-canary" not in said


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "brida.toml").write_bytes(b"model = '\xff'")
    with pytest.raises(ConfigurationError, match="it is not UTF-8"):
        find_project_file(tmp_path, ENGLISH)


@pytest.mark.parametrize("kind", ["directory", "pipe", "device", "loop"])
def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path, kind):
    path = tmp_path / "brida.toml"
    {
        "directory": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "loop": lambda: path.symlink_to(path),
    }[kind]()
    with pytest.raises(ConfigurationError, match=r"brida\.toml cannot be read"):
        find_project_file(tmp_path, ENGLISH)


@given(table=json_objects | some_settings().map(nested), garbage=st.none() | st.binary(max_size=40))
def test_any_file_is_read_or_refused_in_words(tmp_path_factory, table, garbage):
    directory = tmp_path_factory.getbasetemp() / "any"  # above it are the folders of other tests
    directory.mkdir(exist_ok=True)
    try:
        text = toml(table).encode()
    except (TypeError, UnicodeEncodeError):  # JSON has null, TOML does not
        text = b""
    (directory / "brida.toml").write_bytes(text + (garbage or b""))
    try:
        read = files.read_project_file(directory / "brida.toml", ENGLISH)
    except ConfigurationError as error:
        said = str(error)
    else:
        said = "" if read is None else str(read.path)
    assert str(directory) in said


# --- what is right ----------------------------------------------------------------------------------------


def test_off_and_false_switch_a_limit_off(tmp_path):
    text = "[limits]\nmax_calls = 'off'\nmax_pauses = false\nclosing_reply = true\nno_progress = 'off'"
    write(tmp_path / "brida.toml", text)
    layer = find_project_file(tmp_path, ENGLISH).layer
    assert {key.removeprefix("limits."): one.value for key, one in layer.items()} == {
        "max_calls": None,
        "max_pauses": None,
        "closing_reply": 1024,
        "no_progress": False,
    }


def test_the_digest_is_of_what_is_said_not_of_how_it_is_written(tmp_path):
    digests = set()
    for text in (
        "model = 'x'\nmax_tokens = 5\n[limits]\nmax_turns = 2",
        '# a comment\nlimits.max_turns = 2\nmax_tokens = 5 \nmodel = "x"',
    ):
        write(tmp_path / "brida.toml", text)
        digests.add(find_project_file(tmp_path, ENGLISH).digest)
    write(tmp_path / "brida.toml", "model = 'x'\nmax_tokens = 5\n[limits]\nmax_turns = 3")
    assert len(digests) == 1
    assert find_project_file(tmp_path, ENGLISH).digest not in digests
