"""What a setting can hold: how it is written, what is right, and the JSON Schema that tells an editor."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from brida.core.policy import TIERS, Rule
from brida.core.wording import Say
from brida.texts.catalogue import LANGUAGES, N_, choose_language

Schema = Mapping[str, Any]

LARGEST: Final = 10**18
"""Whole numbers of settings are below this: more digits than anybody means."""

CLOSING_REPLY: Final = 1_024
"""Tokens of a closing reply that is switched on without a number."""

UNITS: Final = {"s": 1, "m": 60, "h": 3_600}
"""Seconds of the units of a duration."""

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smh])", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,18}(\.\d{1,18})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """One kind of value.

    ``check`` takes a value as TOML has it and gives the one that counts (``"off"`` and ``false`` become
    None); it raises ``ValueError`` where the value is wrong. ``read`` takes the text of a variable or a
    flag and gives what a file would hold. ``expected`` says in English what is right, ``schema`` in JSON
    Schema.
    """

    expected: str
    schema: Schema
    check: Callable[[object], object]
    read: Callable[[str], object]
    facts: Mapping[str, object] = field(default_factory=dict)

    def words(self, say: Say) -> str:
        """What would be right, in the language of ``say``."""
        return say(self.expected, **self.facts)


def whole(least: int, *, off: bool = False, on: int | None = None) -> Kind:
    """A whole number from ``least``; with ``off`` it can be switched off, ``on`` is what true means."""
    number: Schema = {"type": "integer", "minimum": least, "exclusiveMaximum": LARGEST}

    def check(value: object) -> object:
        if off and (value == "off" or value is False):
            return None
        if on is not None and (value == "on" or value is True):
            return on
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < LARGEST:
            raise ValueError
        return value

    allowed = [
        number,
        *([{"enum": ["off", False]}] if off else []),
        *([{"enum": ["on", True]}] if on else []),
    ]
    expected = N_("a whole number of at least {least}")
    if off:
        expected = N_("a whole number of at least {least}, or off")
    if on is not None:
        expected = N_("a whole number of at least {least}, or on, or off")
    schema = number if len(allowed) == 1 else {"anyOf": allowed}
    return Kind(expected=expected, schema=schema, check=check, read=plain, facts={"least": least})


def _seconds(value: object) -> object:
    if value == "off" or value is False:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    if not 0 < value < LARGEST:
        raise ValueError
    return value


def _money(value: object) -> object:
    if value == "off" or value is False:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    if not 0 <= value < LARGEST:
        raise ValueError
    return value


def _price(value: object) -> object:
    if value is None or value is False or value == "off":
        raise ValueError
    return _money(value)


def _usd(value: object) -> str:
    if value != "USD":
        raise ValueError
    return "USD"


def _duration(value: object) -> object:
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is not None:
        return _seconds(float(found[1]) * UNITS[found[2]])
    return _seconds(value)


def _switch(value: object) -> object:
    words: Mapping[object, bool] = {"on": True, "off": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in words:
        return words[value]
    raise ValueError


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    value.encode()  # half of a surrogate pair, from a variable that is not UTF-8, is a ValueError too
    return value


def _name(value: object) -> str:
    if not (text := _text(value)).strip():
        raise ValueError
    return text


def _url(value: object) -> str:
    from brida.models.anthropic import checked_url

    return checked_url(_text(value))


def _language(value: object) -> str:
    return choose_language(_text(value), {})


def _tier(value: object) -> str:
    if value not in TIERS:
        raise ValueError
    return str(value)


def _journal(value: object) -> str:
    return "off" if value is False else _name(value)


def _on_ask(value: object) -> str:
    if value not in ("decline", "park"):
        raise ValueError
    return str(value)


def _several(check: Callable[[object], str]) -> Callable[[object], object]:
    def each(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError
        return tuple(check(item) for item in value)

    return each


def _rule(value: object) -> str:
    return Rule(_text(value), "ask").pattern


def plain(text: str) -> object:
    """The number or truth value that a text writes, else the text itself."""
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text


def listed(text: str) -> object:
    """The items between the commas."""
    return [item.strip() for item in text.split(",") if item.strip()]


_STRING: Final = {"type": "string"}
_FILLED: Final = {"type": "string", "pattern": r"\S"}

SECONDS: Final = Kind(
    expected=N_("a number of seconds above 0, or off"),
    schema={"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"enum": ["off", False]}]},
    check=_seconds,
    read=plain,
)
PRICE: Final = Kind(
    expected=N_("US dollars a million tokens, from 0, such as 3.00"),
    schema={"type": "number", "minimum": 0},
    check=lambda value: Decimal(str(_price(value))),
    read=plain,
)
CURRENCY: Final = Kind(expected=N_("USD, the only currency"), schema={"const": "USD"}, check=_usd, read=str)
MONEY: Final = Kind(
    expected=N_("US dollars from 0, such as 0.50, or off"),
    schema={"anyOf": [{"type": "number", "minimum": 0}, {"enum": ["off", False]}]},
    check=_money,
    read=plain,
)
DURATION: Final = Kind(
    expected=N_("seconds above 0, or a time such as 90s, 10m or 1h, or off"),
    schema={
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "string", "pattern": r"^\d{1,9}(\.\d{1,9})?[smh]$"},
            {"enum": ["off", False]},
        ]
    },
    check=_duration,
    read=plain,
)
SWITCH: Final = Kind(
    expected=N_("true or false"),
    schema={"enum": [True, False, "on", "off"]},
    check=_switch,
    read=plain,
)
TEXT: Final = Kind(expected=N_("a text"), schema=_STRING, check=_text, read=str)
NAME: Final = Kind(expected=N_("a name that is not blank"), schema=_FILLED, check=_name, read=str)
URL: Final = Kind(
    expected=N_("an address such as http://127.0.0.1:8080"),
    schema={"type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://"},
    check=_url,
    read=str,
)
LANGUAGE: Final = Kind(
    expected=N_("en, es or pt"),
    schema={"type": "string", "pattern": f"^({'|'.join(LANGUAGES)})([-_.@].*)?$"},
    check=_language,
    read=str,
)
TIER: Final = Kind(
    expected=N_("allow, ask or deny"), schema={"enum": list(reversed(TIERS))}, check=_tier, read=str
)
JOURNAL: Final = Kind(
    expected=N_("a path, or off"),
    schema={"anyOf": [_FILLED, {"const": False}]},
    check=_journal,
    read=str,
)
ON_ASK: Final = Kind(
    expected=N_("decline or park"), schema={"enum": ["decline", "park"]}, check=_on_ask, read=str
)
NAMES: Final = Kind(
    expected=N_("a list of texts that are not blank"),
    schema={"type": "array", "items": _FILLED},
    check=_several(_name),
    read=listed,
)
RULES: Final = Kind(
    expected=N_("a list of tool names, or globs such as read_*"),
    schema={"type": "array", "items": {"type": "string", "pattern": r"^\S+$"}},
    check=_several(_rule),
    read=listed,
)
