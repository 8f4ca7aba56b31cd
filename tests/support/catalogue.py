"""The models that the server lists."""

from collections.abc import Mapping
from typing import Any

from support.script import Error, RawBody
from support.wire import encode


def model_info(name: str, *, context: int = 200_000, output: int = 128_000, **fields: Any) -> dict[str, Any]:
    """What ``GET /v1/models/ID`` says. ``context`` and ``output`` are limits in tokens."""
    able = {"supported": True}
    return {
        "id": name,
        "type": "model",
        "display_name": name.replace("-", " ").title(),
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": context,
        "max_tokens": output,
        "capabilities": {"batch": able, "image_input": able, "pdf_input": able, "structured_outputs": able},
        **fields,
    }


DEFAULT_MODELS: Mapping[str, Mapping[str, Any]] = {
    info["id"]: info
    for info in (
        model_info("claude-opus-5-5", context=1_000_000),
        model_info("claude-sonnet-5", context=1_000_000),
        model_info("claude-haiku-4-5", output=64_000),
    )
}


def model_list(models: Mapping[str, Mapping[str, Any]], path: str) -> RawBody | Error:
    """The answer to ``GET /v1/models`` or ``GET /v1/models/ID``."""
    name = path.removeprefix("/v1/models").lstrip("/")
    if not name:
        ids = list(models)
        listing = {"data": list(models.values()), "has_more": False}
        ends = {"first_id": ids[0] if ids else None, "last_id": ids[-1] if ids else None}
        return RawBody(200, encode({**listing, **ends}))
    if name in models:
        return RawBody(200, encode(models[name]))
    return Error(404, message=f"model: {name}")
