"""What went wrong with an attempt: foreign exceptions become faults, once, here at the border."""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final

from brida.core.events import Fault

SHOWN: Final = 500
"""Characters of a server's words that are kept."""

UNSENT: Final = (
    "ConnectError",
    "ConnectTimeout",
    "PoolTimeout",
    "ProxyError",
    "UnsupportedProtocol",
    "LocalProtocolError",
)
"""Errors of the transport before anything was sent, names of looking up, connecting and TLS among them."""

LEADING: Final = 12
"""First characters by which a piece of a long secret is known."""

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
    "validationException": "invalid_request",
    "throttlingException": "rate_limited",
    "internalServerException": "server_error",
    "modelStreamErrorException": "server_error",
    "modelTimeoutException": "timeout",
    "serviceUnavailableException": "overloaded",
}
"""Error types of the API, and those inside a stream of Bedrock, and the kind of fault each is."""

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

GATEWAYS: Final = (408, 502, 504, *range(520, 529))
"""Statuses with which something before the model gives up: whether that answered, and what for, who knows."""

_AGAIN_IN_STREAM: Final = ("overloaded", "server_error", "timeout", "rate_limited")


def status_fault(status: int, headers: Mapping[str, str], body: object) -> Fault:
    """The fault of an answer that is no success.

    Again: 408, 409, 429 and every status from 500, unless ``x-should-retry`` says no; nothing makes a
    spend limit or a bill worth another try. An error that came inside an answer of status 200 is judged by
    its type, since its headers left before it happened.
    """
    error = _error_of(body)
    code = _details_of(error).get("error_code")
    kind = KINDS.get(str(error.get("type"))) or _BY_STATUS.get(status) or _general_kind(status)
    again = kind in _AGAIN_IN_STREAM if status < 300 else status in (408, 409, 429) or status >= 500
    if headers.get("x-should-retry") == "false" and status >= 300:
        again = False
    if code in SPEND_LIMITS:
        kind = "spend_limit"
    if kind in ("spend_limit", "billing"):
        again = False
    return Fault(
        kind=kind,
        message=_words(body, error) or f"status {status}",
        again=again,
        retry_after=retry_after(headers),
        billed=status < 300 or status in GATEWAYS,
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


def _words(body: object, error: Mapping[str, Any]) -> str:
    """What the server said about it, wherever servers say it; not every one keeps to the API's form."""
    if isinstance(body, bytes | str):
        return str(body)
    spoken = [error.get("message")]
    if isinstance(body, dict):
        spoken += [body.get("message"), body.get("detail"), body.get("error")]
    return next((words for words in spoken if isinstance(words, str) and words), "")


def opening_fault(error: Exception) -> Fault | None:
    """The fault of a request that got no answer to read; None where ``error`` is no matter of the wire."""
    import anthropic
    import httpx2

    if isinstance(error, anthropic.APIStatusError):
        return status_fault(error.status_code, error.response.headers, error.body)
    cause = error.__cause__ or error if isinstance(error, anthropic.AnthropicError) else error
    if isinstance(cause, httpx2.DecodingError):
        return reading_fault(cause)
    if isinstance(error, anthropic.APIConnectionError | httpx2.HTTPError | httpx2.StreamError):
        late = isinstance(cause, httpx2.TimeoutException)
        billed = type(cause).__name__ not in UNSENT
        return Fault("timeout" if late else "connection", _told(cause), again=True, billed=billed)
    if type(error).__name__ == "WorkloadIdentityError":  # a token could not be had; the request did not leave
        status = getattr(error, "status_code", None)
        again = status in (408, 429) or status >= 500 if status else isinstance(cause, httpx2.HTTPError)
        return Fault("authentication", _told(error), again=again, status=status)
    return None


def reading_fault(error: Exception) -> Fault:
    """The fault of an answer that broke off while it was read, or that could not be read."""
    import anthropic
    import httpx2

    if isinstance(error, anthropic.APIStatusError):  # an error event inside a stream
        return status_fault(error.status_code, error.response.headers, error.body)
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        kind = "stalled_stream"
    elif isinstance(error, httpx2.HTTPError | httpx2.StreamError) and not isinstance(
        error, httpx2.DecodingError
    ):
        kind = "cut_stream"
    else:
        kind = "malformed_body"
    return Fault(kind, _told(error), again=True, billed=True)


def _told(error: BaseException) -> str:
    """The error's name and words. What the transport says of a header that it refused holds the header."""
    name, words = type(error).__name__, str(error)
    return f"{name}: {words}" if words and name != "LocalProtocolError" else name


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait, from ``retry-after-ms`` or ``retry-after``; None where it says
    nothing that makes sense, a time in the past included."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after") or ""
    seconds = _number(asked)
    if seconds is not None:
        return seconds
    try:
        when = parsedate_to_datetime(asked)
        seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - time.time()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return seconds if seconds >= 0 else None


def _number(text: str | None) -> float | None:
    """A number as HTTP writes it: digits, perhaps a fraction. Not what Python would take for one besides."""
    return float(text) if text and re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", text.strip()) else None


def without_secrets(fault: Fault, secrets: Iterable[str | None]) -> Fault:
    """The fault with every secret that a server, or the transport, repeated taken out; then it is cut.

    A long secret is known by its first characters, so that a piece of it goes too: texts were cut before.
    """
    message, request_id = fault.message, fault.request_id or ""
    for secret in secrets:
        for form in (secret or "", (secret or "").strip(), repr(secret or "")[1:-1]):
            if len(form.strip()) >= 4:
                message, request_id = message.replace(form, "***"), request_id.replace(form, "***")
        start = (secret or "").strip()[:LEADING]
        if len(secret or "") >= 2 * LEADING:
            message = re.sub(re.escape(start) + r"[^\s\"'<>,;]*", "***", message)
    return replace(fault, message=message[:SHOWN], request_id=request_id[:SHOWN] or None)
