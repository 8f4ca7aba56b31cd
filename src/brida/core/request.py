"""One request to the model: what stays fixed for the run, and the messages as bytes."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from brida.core.encoding import encode
from brida.core.events import Started

RESERVED = ("messages", "model", "max_tokens", "system", "tools", "stop_sequences", "stream", "thread")
"""Fields of the body that ``extra`` may not hold: the loop owns them."""


@dataclass(frozen=True, slots=True)
class Head:
    """The part of the body that never changes within a run, encoded once: an open JSON object."""

    model: str
    encoded: bytes

    @classmethod
    def of(cls, started: Started, *, closing: bool = False) -> "Head":
        """The head of the run that ``started`` describes; empty parts are left out.

        ``closing``: that of a closing reply, which has the same tools and may use none of them.
        """
        parts: dict[str, object] = {
            "model": started.model,
            "system": started.system,
            "tools": [tool.definition for tool in started.tools],
            "stop_sequences": started.stop_sequences,
        }
        given = {name: value for name, value in parts.items() if value}
        body = {**given, **(started.extra or {})}
        if closing:
            body.pop("tool_choice", None)
            body |= _without_format(body)
            body |= {"tool_choice": {"type": "none"}} if started.tools else {}
        return cls(started.model, encode(body)[:-1])


def _without_format(body: Mapping[str, object]) -> dict[str, object]:
    """The settings of the output without a schema: a closing reply is prose."""
    config = body.get("output_config")
    if not isinstance(config, Mapping):
        return {}
    return {"output_config": {name: value for name, value in config.items() if name != "format"}}


@dataclass(frozen=True, slots=True)
class Request:
    """What one attempt sends: ``messages`` as JSON in UTF-8, ``max_tokens`` for the reply."""

    head: Head
    max_tokens: int
    messages: bytes

    def body(self, *, stream: bool) -> bytes:
        """The whole body, ready for the wire."""
        tail = b',"stream":true}' if stream else b"}"
        limit = b',"max_tokens":%d,"messages":' % self.max_tokens
        return b"".join((self.head.encoded, limit, self.messages, tail))

    @staticmethod
    def digest(head: Head, max_tokens: int, messages_digest: str) -> str:
        """A SHA-256 that two requests share where they are the same; the digest of the messages is given."""
        return hashlib.sha256(
            b"%b\n%d\n%b" % (head.encoded, max_tokens, messages_digest.encode())
        ).hexdigest()

    def as_dict(self) -> dict[str, object]:
        """The body as Python values, for models that do not speak bytes. Decodes the whole history."""
        return cast("dict[str, object]", json.loads(self.body(stream=False)))
