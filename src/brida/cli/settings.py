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


@dataclass(frozen=True, slots=True)
class Settings:
    """What the flags and the environment stand for, in the words of ``say``.

    Every method raises :class:`ConfigurationError`, naming the flag, where a flag makes no sense.
    ``tell`` is told what a person should know of a choice.
    """

    flags: Flags
    say: "Catalogue"
    tell: Callable[[str], None]

    def model(self) -> "Model":
        """The model: ``--model``, else ``BRIDA_MODEL``, else the default where a credential or a base URL
        is set, else the embedded one where it is installed."""
        name = self.flags.model or os.environ.get("BRIDA_MODEL")
        if name != "embedded" and (model := self._served_model(name)) is not None:
            return model
        from brida.models.embedded import EmbeddedModel

        embedded = EmbeddedModel(self.say)
        embedded.prepare()
        return embedded

    def _served_model(self, name: str | None) -> "Model | None":
        """A model behind a server; None where nothing names one and the embedded one is there instead."""
        from brida.models.anthropic import AnthropicModel, credential_available

        say, server = self.say, self.flags.base_url or os.environ.get("ANTHROPIC_BASE_URL")
        credential = credential_available(os.environ)
        if not (name or server or credential):
            if importlib.util.find_spec("needle") is not None:
                self.tell(
                    say("no credential and no base URL: using the embedded model, which only chooses tools")
                )
                return None
            raise self._no_model()
        if name is not None and not name.strip():
            raise self._wrong("--model: the name is blank")
        try:
            model = AnthropicModel(name or DEFAULT_MODEL, base_url=self.flags.base_url)
        except ConfigurationError as error:
            raise self._wrong(
                "--base-url: {url} is no address such as http://127.0.0.1:8080",
                url=str(server).rpartition("@")[2],
            ) from error
        if model.needs_credential and not credential:
            raise self._no_model()
        model.preload()
        self.tell(say("model {model} at {base_url}", model=model.name, base_url=model.base_url))
        return model

    def tools(self) -> "dict[str, Tool]":
        """The built-in tools unless ``none`` is named, and those that ``--tools`` adds, by name."""
        from brida.tools.builtin import builtin_tools

        builtin = builtin_tools(self.root())
        chosen = {} if "none" in self.flags.tools else dict(builtin)
        for name in self.flags.tools:
            if ":" in name:
                for made in self._imported(name):
                    if chosen.get(made.name, made) is not made:
                        raise self._wrong(
                            "--tools: two tools are named {tool}; --tools none drops the built-in ones",
                            tool=made.name,
                        )
                    chosen[made.name] = made
            elif name in builtin:
                chosen[name] = builtin[name]
            elif name != "none":
                raise self._wrong(
                    "--tools: {name} is no built-in tool ({known}), nor none, nor MODULE:NAME",
                    name=name,
                    known=", ".join(builtin),
                )
        return chosen

    def _imported(self, reference: str) -> "Iterable[Tool]":
        from brida.tools.declare import Tool, tool

        module_name, _, attribute = reference.partition(":")
        sys.path.insert(0, str(self.root()))
        try:
            found: Any = importlib.import_module(module_name)
            for part in attribute.split("."):
                found = getattr(found, part)
            listed = found if isinstance(found, list | tuple) else [found]
            return [item if isinstance(item, Tool) else tool(item) for item in listed]
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__}: {error}"
            raise self._wrong(
                "--tools: {reference} cannot be used: {why}", reference=reference, why=why
            ) from error

    def root(self) -> Path:
        """The project directory."""
        path = Path(self.flags.root)
        try:
            if path.is_dir():
                return path.resolve()
        except (OSError, ValueError):
            pass
        raise self._wrong("--root: {path} is no directory", path=self.flags.root)

    def limits(self) -> "Limits":
        """The limits that the flags name."""
        from brida.core.valves import Limits

        flags = self.flags
        try:
            return Limits(
                max_turns=flags.max_turns,
                max_requests=flags.max_requests,
                max_tokens_total=flags.max_tokens_total,
                deadline=flags.deadline,
            )
        except ValueError as error:
            raise self._wrong("a limit makes no sense: {why}", why=error) from error

    def policy(self) -> "Policy":
        """The rules that the flags name, each with its flag as the source."""
        from brida.core.policy import Policy, Rule, Tier

        given: Mapping[Tier, tuple[str, ...]] = {
            "allow": self.flags.allow,
            "ask": self.flags.ask,
            "deny": self.flags.deny,
        }
        try:
            return Policy([Rule(name, tier, f"--{tier}") for tier, names in given.items() for name in names])
        except ValueError as error:
            raise self._wrong("a rule makes no sense: {why}", why=error) from error

    def task(self) -> str:
        """The task: the argument, the standard input where it is ``-``, else the default one."""
        task = self.flags.task
        if task is None:
            return self.say("Read the first line of README.md, then tell me what time it is")
        if task == "-":
            if sys.stdin is None:
                raise self._wrong("the task - reads the standard input, and that is closed")
            try:
                task = sys.stdin.buffer.read().decode("utf-8", "replace")
            except OSError as error:
                raise self._wrong("the standard input cannot be read: {why}", why=error) from error
        if not task.strip():
            raise self._wrong("the task is blank: say what to do")
        return task

    def system(self) -> str | None:
        """The system prompt: the text itself, or the file behind an ``@``."""
        given = self.flags.system
        if given is None or not given.startswith("@"):
            return given
        try:
            return Path(given[1:]).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise self._wrong("--system: cannot read {path}: {why}", path=given[1:], why=error) from error

    def yes_to(self, tools: "Mapping[str, Tool]") -> frozenset[str]:
        """The tools whose questions are answered in advance; each must be there."""
        for name in self.flags.yes_to:
            if name not in tools:
                raise self._wrong(
                    "--yes-to: there is no tool named {name}; the tools are: {known}",
                    name=name,
                    known=", ".join(tools) or "-",
                )
        return frozenset(self.flags.yes_to)

    def _no_model(self) -> ConfigurationError:
        return self._wrong(
            "no model to ask: set ANTHROPIC_API_KEY, or give --base-url and --model of a server that "
            "speaks the Messages API, or install brida[embedded] for a model that needs neither"
        )

    def _wrong(self, text: str, **facts: object) -> ConfigurationError:
        return ConfigurationError(self.say(text, **facts))
