"""How values become bytes: one encoding for the wire and the journal, one canonical form for comparing.

Wire bytes keep the order of keys as it was received, so that a block which the harness does not know
goes back as it came. Canonical text sorts the keys, so that ``{"a": 1, "b": 2}`` and
``{"b": 2, "a": 1}`` are the same arguments.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import TypeAlias

Block: TypeAlias = Mapping[str, object]
"""One content block of a message, raw: fields that the harness does not know stay in it."""

_wire = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_ascii = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode
_sorted = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True).encode


def encode(value: object) -> bytes:
    """The JSON of ``value`` as UTF-8, without spaces.

    Half a surrogate pair, which UTF-8 cannot hold, is written as the escape JSON has for it. Raises
    ``ValueError`` for NaN and infinity and ``TypeError`` for what JSON does not have: both are bugs of
    the caller, since replies and results are cleaned where they enter.
    """
    text = _wire(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _ascii(value).encode()


def canonical(arguments: Mapping[str, object]) -> str:
    """The arguments of a call in one spelling: keys sorted, no spaces, ASCII. Equal arguments, equal text."""
    return _sorted(arguments)


def digest(tool: str, arguments: Mapping[str, object]) -> str:
    """The SHA-256, in hex, that binds an approval to what was shown: the tool and its exact arguments."""
    return hashlib.sha256(f"{tool}\n{canonical(arguments)}".encode()).hexdigest()
