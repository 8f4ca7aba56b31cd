"""What a task runs with, made from the flags: the model, the tools, the limits, the policy."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brida.errors import ConfigurationError

if TYPE_CHECKING:
    from brida.core.policy import Policy
    from brida.core.valves import Limits
    from brida.models.base import Model
    from brida.texts.catalogue import Catalogue
    from brida.tools.declare import Tool

DEFAULT_MODEL = "claude-sonnet-5"


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of ``brida run``, as they were given; None and empty where they were not."""

    task: str | None
    model: str | None
    base_url: str | None
    system: str | None
    max_tokens: int
    stop_sequence: tuple[str, ...]
    max_turns: int
    max_requests: int | None
    max_tokens_total: int | None
    deadline: float | None
    allow: tuple[str, ...]
    ask: tuple[str, ...]
    deny: tuple[str, ...]
    yes_to: tuple[str, ...]
    tools: tuple[str, ...]
    root: str
    lang: str | None
    json: bool
    events: bool
    quiet: bool
    debug: bool
    fail_on_declined: bool


def choose_model(flags: Flags, say: "Catalogue", tell: Callable[[str], None]) -> "Model":
    """The model that the flags and the environment name.

    ``--model``, else ``BRIDA_MODEL``, else the default where a credential or a base URL is set, else the
    embedded one where it is installed, which ``tell`` is told. Raises :class:`ConfigurationError`
    naming the ways out where there is none.
    """
    name = flags.model or os.environ.get("BRIDA_MODEL")
    if name != "embedded":
        from brida.models.anthropic import AnthropicModel, credential_available

        server = flags.base_url or os.environ.get("ANTHROPIC_BASE_URL")
        if name or server or credential_available(os.environ):
            model = AnthropicModel(name or DEFAULT_MODEL, base_url=flags.base_url)
            model.preload()
            tell(say("model {model} at {base_url}", model=model.name, base_url=model.base_url))
            return model
        if importlib.util.find_spec("needle") is None:
            raise ConfigurationError(
                say(
                    "no model to ask: set ANTHROPIC_API_KEY, or give --base-url and --model of a server that "
                    "speaks the Messages API, or install brida[embedded] for a model that needs neither"
                )
            )
        tell(say("no credential and no base URL: using the embedded model, which only chooses tools"))
    from brida.models.embedded import EmbeddedModel

    embedded = EmbeddedModel(say)
    embedded.prepare()
    return embedded


def choose_tools(flags: Flags) -> "dict[str, Tool]":
    """The built-in tools unless ``none`` is named, and those that ``--tools`` adds, by name."""
    from brida.tools.builtin import builtin_tools

    builtin = builtin_tools(find_root(flags.root))
    chosen = {} if "none" in flags.tools else dict(builtin)
    for name in flags.tools:
        if name == "none":
            continue
        if ":" in name:
            for made in _imported(name, flags.root):
                _add(chosen, made)
        elif name in builtin:
            chosen[name] = builtin[name]
        else:
            known = ", ".join(builtin)
            raise ConfigurationError(f"--tools: {name!r} is no built-in tool ({known}), none, or module:name")
    return chosen


def find_root(root: str) -> Path:
    """The project directory; raises :class:`ConfigurationError` where it is none."""
    path = Path(root)
    if not path.is_dir():
        raise ConfigurationError(f"--root: {root!r} is no directory")
    return path.resolve()


def _add(chosen: "dict[str, Tool]", made: "Tool") -> None:
    if made.name in chosen and chosen[made.name] is not made:
        raise ConfigurationError(
            f"--tools: two tools are named {made.name!r}; drop the built-in with --tools none"
        )
    chosen[made.name] = made


def _imported(reference: str, root: str) -> "Iterable[Tool]":
    from brida.tools.declare import Tool, tool

    module_name, _, attribute = reference.partition(":")
    sys.path.insert(0, str(find_root(root)))
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
        listed = found if isinstance(found, list | tuple) else [found]
        return [item if isinstance(item, Tool) else tool(item) for item in listed]
    except Exception as error:
        raise ConfigurationError(f"--tools: {reference!r}: {type(error).__name__}: {error}") from error


def make_limits(flags: Flags) -> "Limits":
    """The limits that the flags name."""
    from brida.core.valves import Limits

    try:
        return Limits(
            max_turns=flags.max_turns,
            max_requests=flags.max_requests,
            max_tokens_total=flags.max_tokens_total,
            deadline=flags.deadline,
        )
    except ValueError as error:
        raise ConfigurationError(
            f"--{error}".replace("_", "-", str(error).partition(":")[0].count("_"))
        ) from error


def make_policy(flags: Flags) -> "Policy":
    """The rules that the flags name, each with its flag as the source."""
    from brida.core.policy import Policy, Rule, Tier

    given: Mapping[Tier, tuple[str, ...]] = {"allow": flags.allow, "ask": flags.ask, "deny": flags.deny}
    try:
        return Policy([Rule(name, tier, f"--{tier}") for tier, names in given.items() for name in names])
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def read_task(flags: Flags, say: "Catalogue") -> str:
    """The task: the argument, the standard input where it is ``-``, else the default one."""
    if flags.task is None:
        return say("Read the first line of README.md, then tell me what time it is")
    if flags.task != "-":
        return flags.task
    if sys.stdin is None:
        raise ConfigurationError("task: '-' reads the standard input, and it is closed")
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def read_system(flags: Flags) -> str | None:
    """The system prompt: the text itself, or the file behind an ``@``."""
    if flags.system is None or not flags.system.startswith("@"):
        return flags.system
    try:
        return Path(flags.system[1:]).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--system: cannot read {flags.system[1:]!r}: {error}") from error


def check_yes_to(flags: Flags, tools: "Mapping[str, Tool]") -> frozenset[str]:
    """The tools whose questions are answered in advance; each must be there, or a slip would go unseen."""
    for name in flags.yes_to:
        if name not in tools:
            known = ", ".join(tools) or "none"
            raise ConfigurationError(f"--yes-to: there is no tool named {name!r}; the tools are {known}")
    return frozenset(flags.yes_to)
