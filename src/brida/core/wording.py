"""What the model is told when a call does not run, or nobody knows whether it did.

English at the call site; ``say`` translates. What it gives goes into an event as it is, so that the
same journal replays to the same bytes whatever the language of the reader.
"""

from collections.abc import Iterable
from typing import Protocol

from brida.core.stops import Stop


class Say(Protocol):
    """Translates an English text and puts the facts into its braces."""

    def __call__(self, text: str, /, **facts: object) -> str: ...


def english(text: str, /, **facts: object) -> str:
    """The :class:`Say` that translates nothing."""
    return text.format(**facts)


def denied(say: Say, tool: str) -> str:
    """A call that the policy forbids."""
    return say(
        "{tool} is forbidden by policy: the call did not run, and it will stay forbidden. "
        "Do not ask for it again; go on without it.",
        tool=tool,
    )


def unknown_tool(say: Say, tool: str, known: Iterable[str]) -> str:
    """A call of a tool that is not there."""
    names = ", ".join(sorted(known))
    if not names:
        return say(
            "There is no tool named {tool}; there are no tools at all. The call did not run.", tool=tool
        )
    return say(
        "There is no tool named {tool}. The call did not run. The tools are: {names}.", tool=tool, names=names
    )


def invalid(say: Say, tool: str, problems: Iterable[str]) -> str:
    """A call whose arguments do not fit the schema."""
    return say(
        "The arguments of {tool} are not valid, so the call did not run: {problems}",
        tool=tool,
        problems="; ".join(problems),
    )


def declined(say: Say, tool: str, reason: str) -> str:
    """A call to which a person said no."""
    if reason:
        return say(
            "A person declined {tool}: {reason}. The call did not run.", tool=tool, reason=reason.rstrip(".")
        )
    return say("A person declined {tool}. The call did not run.", tool=tool)


def nobody_there(say: Say, tool: str) -> str:
    """A call that needs an answer where nobody can give one."""
    return say(
        "{tool} needs a person's approval and nobody is there to give it: declined. The call did not run.",
        tool=tool,
    )


def did_not_run(say: Say, stop: Stop) -> str:
    """A call that was still open when the run stopped, and had not been started."""
    return say("did not run: {reason}", reason=_reason(say, stop))


def _reason(say: Say, stop: Stop) -> str:
    reasons = {
        "max_turns": say("turn limit"),
        "max_requests": say("request limit"),
        "max_calls": say("call limit"),
        "max_pauses": say("pause limit"),
        "token_budget": say("token budget used up"),
        "cost_budget": say("cost budget used up"),
        "deadline": say("out of time"),
        "no_progress": say("the same calls again, without progress"),
        "interrupted": say("interrupted"),
        "malformed_reply": say("the reply did not stop for its calls"),
        "stopped": say("a person stopped the run"),
        "waiting": say("the run waits for a person"),
    }
    return reasons.get(stop.kind) or say("the run stopped")


def outcome_unknown(say: Say) -> str:
    """A call that had been started when the run stopped, and whose result never came."""
    return say("outcome unknown: the call was started, and nobody knows whether it took effect")


def edited(say: Say, tool: str, changed: str, left_out: str) -> str:
    """A call whose arguments a person changed before it ran: the new ones as JSON, and those left out."""
    texts = [say("A person changed the arguments of {tool} before it ran.", tool=tool)]
    texts += [say("It ran with {arguments}.", arguments=changed)] if changed else []
    texts += [say("It ran without {names}.", names=left_out)] if left_out else []
    return " ".join(texts)


def changed_too_often(say: Say, tool: str) -> str:
    """A call whose arguments were changed again and again and never approved."""
    return declined(say, tool, say("its arguments were changed too often"))


def closing_request(say: Say, stop: Stop) -> str:
    """What the model is told when its turns or its tokens are used up."""
    return say(
        "This run ends here: {reason}. In this reply no tool can be called. Say in a few sentences what you "
        "have found and done so far, and what is left to do.",
        reason=_reason(say, stop),
    )


def answer_missing(say: Say, tool: str) -> str:
    """A reply that ended without the structured answer."""
    return say("The answer is still missing. Give it by calling {tool}.", tool=tool)


def answer_wrong(say: Say, problems: Iterable[str]) -> str:
    """A structured answer that does not fit its schema."""
    return say("The answer does not fit its schema: {problems}. Give it again.", problems="; ".join(problems))
