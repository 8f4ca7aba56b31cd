"""Whether an agent is still the one that a run began with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from brida.core.encoding import encode
from brida.core.events import Declaration, Started

LONGEST: Final = 400
"""Characters of a value that a difference shows."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Something of the definition that changed in a way that matters: what it was, and what it is."""

    what: str
    before: str
    now: str


def differences(begun: Started, now: Started) -> tuple[Difference, ...]:
    """What matters to a run that ``begun`` describes and is no longer so: its model, its system prompt, a
    tool that is gone, a tool's schema or impact. A tool that was added does not matter: the run has not
    heard of it.
    """
    found = [
        Difference(what, _shown(before), _shown(after))
        for what, before, after in (("model", begun.model, now.model), ("system", begun.system, now.system))
        if before != after
    ]
    tools = {tool.name: tool for tool in now.tools}
    for tool in begun.tools:
        found += _of_tool(tool, tools)
    return tuple(found)


def _of_tool(tool: Declaration, tools: Mapping[str, Declaration]) -> list[Difference]:
    now = tools.get(tool.name)
    if now is None:
        return [Difference(f"tool {tool.name}", "there", "gone")]
    pairs = (
        ("schema", _schema(tool), _schema(now)),
        ("impact", tool.impact, now.impact),
    )
    return [
        Difference(f"tool {tool.name}: {what}", _shown(before), _shown(after))
        for what, before, after in pairs
        if before != after
    ]


def _schema(tool: Declaration) -> str:
    return encode(tool.definition.get("input_schema")).decode("utf-8", "replace")


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else "-" if value is None else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
