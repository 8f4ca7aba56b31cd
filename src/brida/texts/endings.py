"""Why a run stopped, in words for a person, with the setting that changes it."""

from collections.abc import Mapping
from typing import Any, Protocol


class Say(Protocol):
    """Translates an English text and puts the facts into its braces."""

    def __call__(self, text: str, /, **facts: object) -> str: ...


def explain(say: Say, kind: str, detail: Mapping[str, Any]) -> str:
    """One or two sentences about a stop of this ``kind``; what the detail lacks is shown as ``?``."""
    limit, used = detail.get("limit", "?"), detail.get("used", "?")
    match kind:
        case "completed":
            return say("the model finished its answer")
        case "stop_sequence":
            return say("the model wrote the stop sequence {sequence!r}", sequence=detail.get("stop_sequence"))
        case "max_turns":
            return say("turn limit: {used} of {limit} turns used; --max-turns raises it", used=used, limit=limit)
        case "max_requests":
            return say(
                "request limit: {used} of {limit} model requests used; --max-requests raises it",
                used=used,
                limit=limit,
            )
        case "max_calls":
            return say(
                "call limit: {used} of {limit} calls used and {asked} more asked for; max_calls raises it",
                used=used,
                limit=limit,
                asked=detail.get("asked", "?"),
            )
        case "max_pauses":
            return say("pause limit: the model paused {used} times, {limit} allowed", used=used, limit=limit)
        case "token_budget":
            return say(
                "token budget: {used} of {limit} tokens used; --max-tokens-total raises it", used=used, limit=limit
            )
        case "cost_budget":
            return say("cost budget: {used} of {limit} US dollars used", used=used, limit=limit)
        case "deadline":
            return say("deadline: {used} s worked, {limit} s allowed; --deadline raises it", used=used, limit=limit)
        case "no_progress":
            return say(
                "no progress: the model walks in place: {calls}",
                calls=", ".join(f"{call['tool']}({call['arguments']})" for call in detail.get("calls", ())),
            )
        case _:
            return _explain_failure(say, kind, detail)


def _explain_failure(say: Say, kind: str, detail: Mapping[str, Any]) -> str:
    match kind:
        case "refused":
            why = ": ".join(str(part) for part in (detail.get("category"), detail.get("explanation")) if part)
            return say("the model refused: {why}", why=why or say("no reason given"))
        case "model_error":
            return say(
                "the model could not be asked: {message} ({fault}, attempt {attempts})",
                message=detail.get("message") or "?",
                fault=detail.get("fault", "?"),
                attempts=detail.get("attempts", "?"),
            )
        case "truncated":
            return say(
                "the reply was cut off at {limit} tokens, the largest size allowed; --max-tokens raises it",
                limit=detail.get("limit", "?"),
            )
        case "context_window_exceeded":
            return say("the conversation no longer fits the model's context window")
        case "malformed_reply":
            return say(
                "the model's reply contradicts itself (stop reason {stop_reason}); nothing of it ran",
                stop_reason=detail.get("stop_reason"),
            )
        case "empty_reply":
            return say("the model's reply was empty")
        case "unknown_stop_reason":
            return say(
                "the model stopped for a reason that brida does not know: {stop_reason!r}; nothing of it ran",
                stop_reason=detail.get("stop_reason"),
            )
        case "interrupted":
            return say("interrupted")
        case "configuration_error":
            return say("a setting or a hook is wrong: {error}", error=detail.get("error", "?"))
        case "internal_error":
            return say("a bug in brida: {error}; run again with --debug to see where", error=detail.get("error", "?"))
        case "stopped":
            return say("stopped: {reason}", reason=detail.get("reason") or say("no reason given"))
        case _:
            return kind
