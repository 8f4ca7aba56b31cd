"""Why a run stopped, in words for a person, with the setting that changes it."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from brida.texts.catalogue import N_


class Say(Protocol):
    """Translates an English text and puts the facts into its braces."""

    def __call__(self, text: str, /, **facts: object) -> str: ...


ENDINGS: Final[Mapping[str, str]] = {
    "completed": N_("the model finished its answer"),
    "stop_sequence": N_("the model wrote the stop sequence {stop_sequence}"),
    "max_turns": N_("turn limit: {used} of {limit} turns used; --max-turns raises it"),
    "max_requests": N_("request limit: {used} of {limit} model requests used; --max-requests raises it"),
    "max_calls": N_("call limit: {used} of {limit} calls used, {asked} more asked for; max_calls raises it"),
    "max_pauses": N_("pause limit: the model paused {used} times, {limit} allowed; max_pauses raises it"),
    "token_budget": N_(
        "token budget: {used} of {limit} tokens used, and the next request may take {needed}; "
        "--max-tokens-total raises it"
    ),
    "cost_budget": N_(
        "cost budget: ${used} of ${limit} used, and the next request may cost ${needed}; --max-cost raises it"
    ),
    "deadline": N_("deadline: {used} s worked, {limit} s allowed; --deadline raises it"),
    "no_progress": N_("no progress, the model walks in place: {calls}"),
    "stopped": N_("stopped: {reason}"),
    "interrupted": N_("interrupted"),
    "refused": N_("the model refused: {why}"),
    "model_error": N_("the model could not be asked: {message} ({fault}, attempt {attempts})"),
    "truncated": N_("the reply was cut off at {limit} tokens, the largest size; --max-tokens raises it"),
    "context_window_exceeded": N_("the conversation no longer fits the model's context window"),
    "malformed_reply": N_(
        "the model's reply contradicts itself (stop reason {stop_reason}); nothing of it ran"
    ),
    "empty_reply": N_("the model's reply was empty"),
    "unknown_stop_reason": N_(
        "the model stopped for a reason that is not known ({stop_reason}); nothing of it ran"
    ),
    "configuration_error": N_("a setting or a hook is wrong: {error}"),
    "internal_error": N_("a bug in brida: {error}; run again with --debug to see where"),
    "waiting": N_("waiting for a person"),
    "journal_error": N_("the run could not be recorded: {error}"),
    "definition_changed": N_("the definition of the agent has changed since the run began; nothing was done"),
}
"""What a person reads of each kind of stop. A fact that the stop lacks is shown as ``?``."""

SHARED: Final = N_(
    "budget {budget}: ${used} of ${limit} used, and the next request may cost ${needed}; "
    "brida budget change {budget} raises it"
)
OF_PARENT: Final = N_("what the run that started this one has left is too little for another request")

_FACTS: Final = (
    *("limit", "used", "needed", "asked", "budget", "stop_sequence", "reason"),
    *("message", "fault", "attempts", "stop_reason", "error"),
)


def explain(say: Say, kind: str, detail: Mapping[str, Any]) -> str:
    """One sentence about a stop of this ``kind``."""
    facts = {name: detail.get(name, "?") for name in _FACTS}
    calls = ", ".join(f"{call['tool']}({call['arguments']})" for call in detail.get("calls", ()))
    parts = (detail.get("category"), detail.get("explanation"))
    why = ": ".join(str(part) for part in parts if part)
    if kind == "malformed_reply" and "error" in detail:
        return say("the model did not give the answer that was asked for: {error}", **facts)
    if kind == "cost_budget":
        facts |= {name: money(facts[name]) for name in ("limit", "used", "needed")}
    ending = ENDINGS.get(kind, kind)
    if kind in ("token_budget", "cost_budget"):
        ending = SHARED if "budget" in detail else OF_PARENT if detail.get("of") == "parent" else ending
    words = say(ending, **facts, calls=calls, why=why or say("no reason given"))
    if held_back := detail.get("held_back"):
        return say("{ending} ({count} held back for the closing reply)", ending=words, count=held_back)
    return words


def money(amount: object) -> str:
    """US dollars with no more digits than say something; what is no number stays as it is."""
    if not isinstance(amount, int | float):
        return str(amount)
    whole, _, digits = f"{amount:.6f}".partition(".")
    return f"{whole}.{digits.rstrip('0'):0<2}"
