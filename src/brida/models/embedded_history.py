"""A history as the embedded model's engine is told it, and the engine's calls as blocks of a history."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from brida.core.encoding import Block

RESULT_SHOWN: Final = 100
"""Characters of a result that the model is shown: longer ones made it ask again, in trials."""

QUOTED: Final = 200
"""Characters of a result that the closing text quotes."""

EngineTool: TypeAlias = Mapping[str, Any]
"""A tool in the form of the engine: name, description, parameters."""


def tools_of(body: Mapping[str, Any]) -> list[EngineTool]:
    """The tools of a request, in the form of the engine."""
    return [
        {"name": tool["name"], "description": tool.get("description", ""), "parameters": tool["input_schema"]}
        for tool in body.get("tools", ())
    ]


def inputs_of(messages: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What the engine is told, one text a turn: what a person said, or results."""
    inputs: list[str] = []
    names: dict[str, str] = {}
    for message in messages:
        names |= {str(b["id"]): str(b["name"]) for b in _as_blocks(message) if b.get("type") == "tool_use"}
        if message["role"] != "user":
            continue
        results = [b for b in _as_blocks(message) if b.get("type") == "tool_result"]
        if results:
            inputs.append(json.dumps([_shown(result, names) for result in results], ensure_ascii=False))
        texts = [str(b["text"]) for b in _as_blocks(message) if b.get("type") == "text"]
        if texts:
            inputs.append("\n".join(texts))
    return tuple(inputs)


def _as_blocks(message: Mapping[str, Any]) -> list[Block]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else cast("list[Block]", content)


def _shown(result: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    word = "error" if result.get("is_error") else "result"
    tool = names.get(str(result.get("tool_use_id")), "")
    return {"name": tool, word: _content(result).strip().partition("\n")[0][:RESULT_SHOWN]}


def _content(result: Mapping[str, Any]) -> str:
    content = result.get("content", "")
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def beginning(result: Mapping[str, Any]) -> str:
    """The first line of a result, or its first characters, with a mark where there is more."""
    content = _content(result).strip()
    first = content.partition("\n")[0][:QUOTED].rstrip()
    return first if first == content else f"{first} ..."


def results_since_last_text(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """The results since a person last spoke, each with the name of its tool."""
    names: dict[str, str] = {}
    results: list[tuple[str, Mapping[str, Any]]] = []
    for message in messages:
        for block in _as_blocks(message):
            if block.get("type") == "tool_use":
                names[str(block["id"])] = str(block["name"])
            elif block.get("type") == "tool_result":
                results.append((names.get(str(block["tool_use_id"]), "?"), block))
            elif message["role"] == "user":
                results = []
    return results


def call_blocks(calls: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]) -> list[Block]:
    """The calls as blocks. Their ids follow from the history alone, so that a replay gives the same ones."""
    before = sum(block.get("type") == "tool_use" for message in messages for block in _as_blocks(message))
    seed = hashlib.sha256(json.dumps(messages).encode()).hexdigest()[:8]
    return [
        {
            "type": "tool_use",
            "id": f"embedded_{seed}_{before + index + 1}",
            "name": str(call.get("name")),
            "input": call.get("arguments") if isinstance(call.get("arguments"), dict) else {},
        }
        for index, call in enumerate(calls)
    ]
