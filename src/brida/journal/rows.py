"""An event as a row of the journal, chained to the row before it, and back."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, cast

from brida.core.codec import from_json, to_json
from brida.core.encoding import encode
from brida.core.events import KINDS, VERSION, Event
from brida.core.wording import Say

CHECKSUM_LENGTH: Final = 16

Row: TypeAlias = tuple[str, int, float, str, int, str, str]
"""run_id, seq, at, kind, version, payload, checksum."""


class NotAsWritten(ValueError):
    """The row is not what was written."""


class TooNew(ValueError):
    """The row was written by a newer brida."""


def row_of(run_id: str, seq: int, event: Event, before: str) -> tuple[Row, str]:
    """The row of the event, and its checksum; ``before`` is that of the row before it."""
    record = to_json(event)
    kind, version, at = str(record.pop("kind")), VERSION, float(event.at)
    del record["version"], record["at"]
    payload = encode(record).decode()
    checksum = _checksum(before, run_id, seq, at, kind, version, payload)
    return (run_id, seq, at, kind, version, payload, checksum), checksum


def event_of(
    run_id: str, expected: int, row: Sequence[Any], before: str | None, say: Say
) -> tuple[Event, str]:
    """The event of a row ``(seq, at, kind, version, payload, checksum)``, and its checksum.

    ``expected`` is its number; ``before`` the checksum of the row before it, None where there is no chain.
    Raises :class:`NotAsWritten` and :class:`TooNew`.
    """
    seq, at, kind, version, payload, checksum = row
    if seq != expected:
        raise NotAsWritten(say("expected event {expected}, found event {seq}", expected=expected, seq=seq))
    if isinstance(version, int) and version > VERSION:
        raise TooNew(
            say(
                "a newer brida wrote it (version {version} of a record; this one reads up to {known})",
                version=version,
                known=VERSION,
            )
        )
    if before is not None and checksum != _checksum(before, run_id, seq, at, kind, version, payload):
        raise NotAsWritten(say("its checksum does not fit"))
    if kind not in KINDS:
        raise TooNew(say("a newer brida wrote it (kind {kind} is unknown)", kind=json.dumps(kind)))
    try:
        fields = json.loads(payload)
        if not isinstance(fields, dict):
            raise ValueError("its payload is no object")
        event = from_json({**cast("dict[str, object]", fields), "kind": kind, "version": version, "at": at})
    except (ValueError, TypeError, RecursionError) as error:
        raise NotAsWritten(str(error)) from error
    return event, str(checksum)


def _checksum(before: str, *values: object) -> str:
    text = "\n".join((before, *(repr(v) if isinstance(v, float) else str(v) for v in values)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:CHECKSUM_LENGTH]
