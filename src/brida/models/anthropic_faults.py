"""What went wrong with an attempt: foreign exceptions become faults, once, here at the border."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from brida.core.events import Fault

SHOWN: Final = 500
"""Characters of a server's words that are kept."""

SPEND_LIMITS: Final = ("enforced_spend_limit_reached", "contract_spend_limit_reached")
"""Codes of a 429 that waiting does not mend (messages API, errors)."""

KINDS: Final[Mapping[str, str]] = {
    "invalid_request_error": "invalid_request",
    "authentication_error": "authentication",
    "billing_error": "billing",
    "permission_error": "permission",
    "not_found_error": "not_found",
    "conflict_error": "conflict",
    "request_too_large": "too_large",
    "rate_limit_error": "rate_limited",
    "api_error": "server_error",
    "timeout_error": "timeout",
    "overloaded_error": "overloaded",
}
"""Error types of the API and the kind of fault each is."""

_BY_STATUS: Final[Mapping[int, str]] = {
    400: "invalid_request",
    401: "authentication",
    402: "billing",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    429: "rate_limited",
    504: "timeout",
    529: "overloaded",
}

_AGAIN_IN_STREAM: Final = ("overloaded", "server_error", "timeout", "rate_limited")


def status_fault(status: int, headers: Mapping[str, str], body: object) -> Fault:
    """The fault of an answer that is no success.

    Again: 408, 409, 429 and every status from 500, unless ``x-should-retry`` says no; nothing makes a
    spend limit worth another try. An error that came inside a stream of status 200 is judged by its type.
    """
    error = _error_of(body)
    code = _details_of(error).get("error_code")
    kind = KINDS.get(str(error.get("type"))) or _BY_STATUS.get(status) or _general_kind(status)
    again = kind in _AGAIN_IN_STREAM if status < 300 else status in (408, 409, 429) or status >= 500
    if headers.get("x-should-retry") == "false":
        again = False
    if code in SPEND_LIMITS:
        kind, again = "spend_limit", False
    return Fault(
        kind=kind,
        message=str(error.get("message") or f"status {status}")[:SHOWN],
        again=again,
        retry_after=retry_after(headers),
        billed=status < 300,
        status=status,
        request_id=headers.get("request-id"),
    )


def _general_kind(status: int) -> str:
    if status < 300:
        return "unknown_error"
    if status < 400:
        return "redirected"
    return "server_error" if status >= 500 else "client_error"


def _error_of(body: object) -> Mapping[str, Any]:
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else {}


def _details_of(error: Mapping[str, Any]) -> Mapping[str, Any]:
    details = error.get("details")
    return details if isinstance(details, dict) else {}


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait, from ``retry-after-ms`` or ``retry-after``; None where it says
    nothing that makes sense."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    seconds = _number(asked)
    if seconds is not None or asked is None:
        return seconds
    try:
        when = parsedate_to_datetime(asked)
        now = datetime.now(UTC)
        return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now.timestamp())
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def without_secrets(fault: Fault, secrets: Iterable[str | None]) -> Fault:
    """The fault with every secret that a server echoed taken out of its message."""
    message = fault.message
    for secret in secrets:
        if secret and len(secret) >= 4:
            message = message.replace(secret, "***")
    return replace(fault, message=message)
