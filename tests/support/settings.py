"""Settings for tests: files of them, written as TOML, and strategies that make what can stand in them."""

import json
from pathlib import Path

from hypothesis import strategies as st

from brida.settings.files import SettingsFile, read_project_file
from brida.settings.kinds import (
    DURATION,
    JOURNAL,
    LANGUAGE,
    MONEY,
    NAME,
    NAMES,
    ON_ASK,
    RULES,
    SECONDS,
    SWITCH,
    TEXT,
    TIER,
    URL,
)
from brida.settings.table import BY_KEY, SETTINGS
from brida.settings.values import Given, Layer, Source
from brida.texts.catalogue import ENGLISH

WORDS = st.sampled_from(["get_time", "read_file", "write_file", "delete_file", "none", "tools:mine", "x"])
PATTERNS = st.one_of(WORDS, st.sampled_from(["*", "read_*", "?*", "*_file", "[a-m]*"]))

RIGHT = {
    NAME: st.sampled_from(["m", "embedded", "claude-sonnet-5", "modelo-ñ"]),
    URL: st.sampled_from(["http://127.0.0.1:1", "https://user:sk-ant-canary@example.com/v1"]),
    TEXT: st.sampled_from(["", "be brief", "línea\notra", "@prompt.md"]),
    LANGUAGE: st.sampled_from(["en", "es", "pt", "pt-BR"]),
    SECONDS: st.one_of(st.sampled_from(["off", False]), st.floats(0.001, 1e9), st.integers(1, 10**6)),
    MONEY: st.one_of(st.sampled_from(["off", False]), st.floats(0, 1e6), st.integers(0, 10**6)),
    DURATION: st.one_of(st.sampled_from(["off", "90s", "10m", "1.5h"]), st.floats(0.001, 1e9)),
    SWITCH: st.sampled_from([True, False, "on", "off"]),
    TIER: st.sampled_from(["allow", "ask", "deny"]),
    NAMES: st.lists(WORDS, max_size=3),
    RULES: st.lists(PATTERNS, max_size=4),
    JOURNAL: st.sampled_from(["off", False, "runs.db", "~/runs.db"]),
    ON_ASK: st.sampled_from(["decline", "park"]),
}


def right_value(key: str) -> st.SearchStrategy:
    """Values that are right for a setting, as TOML has them."""
    kind = BY_KEY[key].kind
    if kind in RIGHT:
        return RIGHT[kind]
    least = int(str(kind.facts["least"]))
    words = [word for word in ("off", False, "on", True) if is_right(key, word)]
    numbers = st.integers(least, 60) | st.integers(least, 10**17)
    return numbers | st.sampled_from(words) if words else numbers


def is_right(key: str, value: object) -> bool:
    """Whether a value is right for a setting."""
    try:
        BY_KEY[key].kind.check(value)
    except ValueError:
        return False
    return True


def some_settings() -> st.SearchStrategy[dict[str, object]]:
    """Any subset of the settings, each with a value that is right, by whole key."""
    return st.fixed_dictionaries({}, optional={row.key: right_value(row.key) for row in SETTINGS})


def nested(settings: dict[str, object]) -> dict[str, object]:
    """Settings by whole key as the tables of a file."""
    made: dict[str, object] = {}
    for key, value in settings.items():
        table, _, name = key.rpartition(".")
        inner = made.setdefault(table, {}) if table else made
        assert isinstance(inner, dict)
        inner[name] = value
    return made


def layer(settings: dict[str, object], source: Source) -> Layer:
    """Settings by whole key as what one source says."""
    return {key: Given(BY_KEY[key].kind.check(value), source) for key, value in settings.items()}


def toml(table: dict[str, object], prefix: str = "") -> str:
    """A table as TOML."""
    tables = {key: value for key, value in table.items() if isinstance(value, dict)}
    lines = [f"{_string(key)} = {_value(value)}" for key, value in table.items() if key not in tables]
    for key, value in tables.items():
        lines += [f"[{prefix}{_string(key)}]", toml(value, f"{prefix}{_string(key)}.")]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _string(text: str) -> str:
    return '"' + "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in text) + '"'


def project_file(directory: Path, settings: dict[str, object]) -> SettingsFile:
    """Writes ``brida.toml`` and reads it as a project's file."""
    path = directory / "brida.toml"
    path.write_text(toml(nested(settings)))
    read = read_project_file(path, ENGLISH)
    assert read is not None
    return read
