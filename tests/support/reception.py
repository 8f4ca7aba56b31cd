"""Takes a request in: what it says, and whether the API would refuse it."""

import json
from dataclasses import dataclass
from typing import Any

from support.field_rules import ModelRules
from support.memory import Memory
from support.script import Error
from support.validator import problems
from support.wire import Head

VERSIONS = ("2023-06-01", "2026-10-21")
POSTS = ("/v1/messages", "/v1/messages/count_tokens")


@dataclass(frozen=True, slots=True)
class Received:
    """``problems`` are broken rules; a refusal without them is the server's own affair (keys, threads)."""

    body: dict[str, Any] | None = None
    expanded: dict[str, Any] | None = None
    refusal: Error | None = None
    problems: tuple[str, ...] = ()


def receive(head: Head, memory: Memory, *, require_key: bool, model_rules: ModelRules | None) -> Received:
    """Everything is checked in the order of the real server: path, key, version, JSON, thread, rules."""
    body = _json_object(head.raw) if head.method == "POST" else None
    if not _is_known(head):
        return Received(body, body, Error(404, message=f"Not found: {head.method} {head.path}"))
    bearer = head.headers.get("authorization", "")
    if require_key and not head.headers.get("x-api-key") and not bearer.startswith("Bearer "):
        return Received(body, body, Error(401, message="x-api-key header is required"))
    version = head.headers.get("anthropic-version")
    if version not in VERSIONS:
        text = "header is required" if version is None else f'"{version}" is not a valid version'
        return _refused(body, body, f"anthropic-version: {text}")
    if head.method == "GET":
        return Received()
    if body is None:
        return _refused(None, None, "The request body is not valid JSON")
    expanded = memory.expand(body)
    if isinstance(expanded, Error):
        return Received(body, body, expanded)
    named = (name.strip() for name in head.headers.get("anthropic-beta", "").split(","))
    found = problems(
        expanded,
        version=version,
        model_rules=model_rules,
        paused=memory.ends_paused(expanded),
        betas=frozenset(name for name in named if name),
        count_tokens=head.path.endswith("/count_tokens"),
    )
    return _refused(body, expanded, *found) if found else Received(body, expanded)


def _is_known(head: Head) -> bool:
    if head.method == "POST":
        return head.path in POSTS
    return head.method == "GET" and (head.path == "/v1/models" or head.path.startswith("/v1/models/"))


def _refused(body: dict[str, Any] | None, expanded: dict[str, Any] | None, *texts: str) -> Received:
    return Received(body, expanded, Error(400, message=texts[0]), texts)


def _json_object(raw: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
