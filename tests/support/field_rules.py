"""The rules of the Messages API that concern everything but ``messages``."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from support.block_rules import NEW_VERSION, blank, extra_fields

FORCED_CHOICE = 'tool_choice: type "tool" and "any" are not supported for this model.'

_is_tool_name = re.compile(r"[a-zA-Z0-9_-]{1,128}").fullmatch

_COUNTED = frozenset(
    {
        "messages",
        "model",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "cache_control",
        "speed",
        "container",
        "diagnostics",
    }
)
_CREATED = _COUNTED | {
    "max_tokens",
    "inference_geo",
    "metadata",
    "service_tier",
    "stop_sequences",
    "stream",
    "user_profile_id",
    "workspace_id",
}
_BETA = frozenset(
    {
        "billing_policy",
        "compaction",
        "context_management",
        "fallback_credit_token",
        "fallbacks",
        "mcp_servers",
    }
)
_SAMPLING = frozenset({"temperature", "top_p", "top_k"})
_CUSTOM_TOOL = frozenset(
    {
        "type",
        "name",
        "description",
        "input_schema",
        "cache_control",
        "strict",
        "defer_loading",
        "allowed_callers",
        "input_examples",
        "eager_input_streaming",
    }
)
_TYPES: tuple[tuple[str, type, str], ...] = (
    ("model", str, "string"),
    ("stream", bool, "boolean"),
    ("tools", list, "list"),
    ("stop_sequences", list, "list"),
    ("metadata", dict, "dictionary"),
    ("tool_choice", dict, "dictionary"),
    ("thinking", dict, "dictionary"),
    ("output_config", dict, "dictionary"),
)


@dataclass(frozen=True, slots=True)
class ModelRules:
    """What differs by model. Token limits count output tokens."""

    prefill: bool = False
    forced_tool_choice: bool = True
    max_output_tokens: int = 128_000

    @classmethod
    def of(cls, model: object) -> "ModelRules":
        """The rules of a model by its id. An unknown id gets the defaults."""
        name = model if isinstance(model, str) else ""
        old = re.search(r"-4-5\b", name) is not None
        newest = re.search(r"(opus|sonnet|haiku)-5-5|(fable|mythos)-5-[12]", name) is not None
        return cls(
            prefill=old,
            forced_tool_choice=not newest,
            max_output_tokens=64_000 if old else 128_000,
        )


def field_problems(
    body: Mapping[str, Any],
    rules: ModelRules,
    *,
    version: str = NEW_VERSION,
    betas: Collection[str] = (),
    count_tokens: bool = False,
    tools_known_good: bool = False,
) -> list[str]:
    """The problems of all fields but ``messages``. ``tools_known_good`` skips a look at every tool."""
    found = _names(body, version, betas, count_tokens)
    mistyped = [
        f"{name}: Input should be a valid {word}"
        for name, kind, word in _TYPES
        if name in body and not isinstance(body[name], kind)
    ]
    if mistyped:
        return found + mistyped
    if not body.get("model"):
        found.append("model: Field required")
    if not count_tokens:
        _max_tokens(body, rules, found)
    if "system" in body:
        _system(body["system"], found)
    if "tools" in body and not tools_known_good:
        _tools(body["tools"], found)
    if "tool_choice" in body:
        _tool_choice(body["tool_choice"], body, rules, found)
    if "thinking" in body:
        _thinking(body["thinking"], body, found)
    if any(not isinstance(text, str) or blank(text) for text in body.get("stop_sequences", ())):
        found.append("stop_sequences: each stop sequence must contain non-whitespace")
    return found


def breakpoints(body: Mapping[str, Any]) -> int:
    """How many cache breakpoints stand outside the messages."""
    system = body.get("system")
    blocks = [*(system if isinstance(system, list) else ()), *(body.get("tools") or ())]
    own = body.get("cache_control") is not None
    return own + sum(
        isinstance(block, Mapping) and block.get("cache_control") is not None for block in blocks
    )


def _names(body: Mapping[str, Any], version: str, betas: Collection[str], count_tokens: bool) -> list[str]:
    known = _COUNTED if count_tokens else _CREATED
    if body.keys() <= known:
        return []
    if version < NEW_VERSION:
        known |= _SAMPLING
    if betas:
        known |= _BETA
    if any(beta.startswith("message-threads-") for beta in betas):
        known |= {"thread"}
    return extra_fields("", body, known)


def _max_tokens(body: Mapping[str, Any], rules: ModelRules, found: list[str]) -> None:
    if "max_tokens" not in body:
        found.append("max_tokens: Field required")
        return
    limit = body["max_tokens"]
    if type(limit) is not int:
        found.append("max_tokens: Input should be a valid integer")
    elif limit < 1:
        found.append("max_tokens: Input should be greater than or equal to 1")
    elif limit > rules.max_output_tokens:
        found.append(
            f"max_tokens: {limit} > {rules.max_output_tokens}, which is the maximum allowed number of output"
            f" tokens for {body.get('model')}"
        )


def _system(system: Any, found: list[str]) -> None:
    """Where ``system`` is a string it is held to the rule of a text block, which is stricter than need be."""
    for at, block in enumerate(
        [{"type": "text", "text": system}] if isinstance(system, str) else system or ()
    ):
        if (
            not isinstance(block, Mapping)
            or block.get("type") != "text"
            or not isinstance(block.get("text"), str)
        ):
            found.append(f"system.{at}: Input should be a text block")
        elif objection := blank(block["text"]):
            found.append(f"system: {objection}")


def _tools(tools: list[Any], found: list[str]) -> None:
    names: set[str] = set()
    deferred = 0
    for at, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            found.append(f"tools.{at}: Input should be a valid dictionary")
            continue
        kind = tool.get("type") or "custom"
        name = tool.get("name")
        if kind == "custom":
            _custom_tool(at, tool, found)
        if isinstance(name, str):
            if name in names and "tools: Tool names must be unique." not in found:
                found.append("tools: Tool names must be unique.")
            names.add(name)
        if tool.get("defer_loading"):
            deferred += 1
            if tool.get("cache_control") is not None:
                found.append(f"tools.{at}.{kind}: cache_control cannot be set with defer_loading")
    if tools and deferred == len(tools):
        found.append("All tools have defer_loading: true")


def _custom_tool(at: int, tool: Mapping[str, Any], found: list[str]) -> None:
    path = f"tools.{at}.custom"
    name, schema = tool.get("name"), tool.get("input_schema")
    if not isinstance(name, str):
        found.append(f"{path}.name: Field required")
    elif not _is_tool_name(name):
        found.append(f"{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    if schema is None:
        found.append(f"{path}.input_schema: Field required")
    elif not isinstance(schema, Mapping):
        found.append(f"{path}.input_schema: Input should be a valid dictionary")
    elif "type" not in schema:
        found.append(f"{path}.input_schema.type: Field required")
    elif schema["type"] != "object":
        found.append(f"{path}.input_schema.type: Input should be 'object'")
    if not isinstance(tool.get("description", ""), str):
        found.append(f"{path}.description: Input should be a valid string")
    if not tool.keys() <= _CUSTOM_TOOL:
        found.extend(extra_fields(f"{path}.", tool, _CUSTOM_TOOL))


def _tool_choice(
    choice: Mapping[str, Any], body: Mapping[str, Any], rules: ModelRules, found: list[str]
) -> None:
    kind = choice.get("type")
    if kind not in ("auto", "any", "tool", "none"):
        found.append(
            f"tool_choice: Input tag '{kind}' found using 'type' does not match any of the expected tags:"
            " 'auto', 'any', 'tool', 'none'"
        )
        return
    known = {"type"} | ({"name"} if kind == "tool" else set())
    known |= {"disable_parallel_tool_use"} if kind != "none" else set()
    found.extend(extra_fields(f"tool_choice.{kind}.", choice, frozenset(known)))
    if not body.get("tools"):
        found.append("tool_choice may only be specified while providing tools.")
    if kind in ("any", "tool") and not rules.forced_tool_choice:
        found.append(FORCED_CHOICE)
    if kind == "tool":
        name = choice.get("name")
        if not isinstance(name, str):
            found.append("tool_choice.tool.name: Field required")
        elif all(
            not isinstance(tool, Mapping) or tool.get("name") != name for tool in body.get("tools") or ()
        ):
            found.append(f"Tool '{name}' not found in provided tools")


def _thinking(thinking: Mapping[str, Any], body: Mapping[str, Any], found: list[str]) -> None:
    if thinking.get("type") != "enabled":
        return
    budget = thinking.get("budget_tokens")
    if type(budget) is not int:
        found.append("thinking.enabled.budget_tokens: Field required")
    elif budget < 1024:
        found.append("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    elif isinstance(limit := body.get("max_tokens"), int) and budget >= limit:
        found.append("`max_tokens` must be greater than `thinking.budget_tokens`.")
