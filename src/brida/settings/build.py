"""The agent that the settings describe, made."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from brida.core.limits import Limits
from brida.core.policy import Policy
from brida.core.prices import Prices
from brida.core.wording import Say
from brida.errors import ConfigurationError
from brida.settings.merge import Effective
from brida.settings.values import Given, Source

if TYPE_CHECKING:
    from brida.agent import Agent
    from brida.journal.base import Journal
    from brida.models.base import Model
    from brida.tools.declare import Tool

DEFAULT_MODEL: Final = "claude-sonnet-5"
SYSTEM_PROMPT_LARGEST: Final = 1 << 20
"""Bytes of a file that holds a system prompt."""


@dataclass(frozen=True, slots=True)
class Builder:
    """Makes what an agent takes from the settings that count.

    ``root`` is the project directory, ``base`` an agent made in code that the settings change, ``prices``
    what the files say that models cost. ``tell`` is told what a person should know of a choice. Every method
    raises :class:`ConfigurationError`, naming where the value was written, where it makes no sense.
    """

    effective: Effective
    root: Path
    say: Say
    tell: Callable[[str], None]
    base: "Agent | None" = None
    prices: Mapping[str, Prices] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        """The arguments of :class:`brida.Agent`; for a ``base``, those that differ from its own."""
        made: dict[str, Any] = {
            key: self._given(key).value
            for key in ("max_tokens", "stop_sequences", "language", "on_ask", "approval_ttl", "cache")
            if self._is_changed(key)
        }
        if self._is_changed("model", "base_url"):
            made["model"] = self._model()
        if self._is_changed("tools"):
            made["tools"] = tuple(self._tools().values())
        if self._is_changed("system"):
            made["system"] = self._system()
        made["secrets"] = self._secrets()
        made["prices"] = {**self.prices, **({} if self.base is None else self.base.prices)}
        own = () if self.base is None else self.base.budgets
        made["budgets"] = tuple(dict.fromkeys((*own, *self.effective.budgets)))
        return {**made, "limits": self._limits(), "policy": self._policy(), "journal": self._journal()}

    def _journal(self) -> "Journal | None":
        """Where the runs are kept; a path is looked for beside the file that names it."""
        given = self._given("journal")
        if given.value is None and self.base is not None and self.base.journal is not None:
            return self.base.journal
        if given.value == "off":
            return None
        from brida.journal.sqlite import SqliteJournal, default_path

        if given.value is None:
            return SqliteJournal(default_path(), self.say)
        return SqliteJournal(
            (given.source.directory or Path()) / Path(str(given.value)).expanduser(), self.say
        )

    def _secrets(self) -> tuple[str, ...]:
        """The variables that were declared secret; one that is not set is worth a word."""
        for given in self.effective.rules_of("secrets"):
            if not os.environ.get(str(given.value)):
                where = _where(given.source, "secrets")
                self.tell(self.say("{where}: the variable {name} is not set", where=where, name=given.value))
        own = () if self.base is None else self.base.secrets
        return tuple(dict.fromkeys((*own, *self.effective.secrets)))

    def _policy(self) -> Policy:
        own = () if self.base is None else self.base.policy.rules
        above = None if self.base is None else self.base.policy.above
        tier = str(self._given("policy.default").value)
        return Policy((*own, *self.effective.rules), default=tier, above=above)

    def _given(self, key: str) -> Given:
        return self.effective.values[key]

    def _is_changed(self, *keys: str) -> bool:
        return self.base is None or any(self._given(key).source.kind != "agent" for key in keys)

    def _limits(self) -> Limits:
        closing = self._given("limits.closing_reply").value
        total = self._given("limits.max_tokens_total").value
        if isinstance(closing, int) and isinstance(total, int) and closing >= total:
            raise self._wrong(
                "closing_reply ({closing}) must be lower than max_tokens_total ({total})",
                closing=closing,
                total=total,
            )
        try:
            return self.effective.limits()
        except ValueError as error:
            raise self._wrong("a limit makes no sense: {why}", why=error) from error

    def _model(self) -> "Model":
        """The model that is named, else the default one where a credential or a base URL is set, else the
        embedded one where it is installed."""
        name = self._given("model").value
        if name != "embedded" and (model := self._served_model(name)) is not None:
            return model
        from brida.models.embedded import EmbeddedModel

        embedded = EmbeddedModel(self.say)
        embedded.prepare()
        return embedded

    def _served_model(self, name: object) -> "Model | None":
        """A model behind a server; None where nothing names one and the embedded one is there instead."""
        from brida.models.anthropic import AnthropicModel, credential_available

        server, credential = self._given("base_url").value, credential_available(os.environ)
        if not (name or server or credential):
            if importlib.util.find_spec("needle") is None:
                raise self._no_model()
            self.tell(
                self.say("no credential and no base URL: using the embedded model, which only chooses tools")
            )
            return None
        given = server if isinstance(server, str) else None
        model = AnthropicModel(str(name or DEFAULT_MODEL), base_url=given)
        if model.needs_credential and not credential:
            raise self._wrong(
                "{model} needs a credential: set ANTHROPIC_API_KEY, or give --base-url of a server that "
                "needs none; --model embedded needs neither key nor network",
                model=model.name,
            )
        model.preload()
        self.tell(self.say("model {model} at {base_url}", model=model.name, base_url=model.base_url))
        return model

    def _tools(self) -> "dict[str, Tool]":
        """The agent's own or the built-in tools unless ``none`` is named, and those that are added."""
        from brida.delegating import NAME as DELEGATE
        from brida.delegating import delegate_tool
        from brida.tools.builtin import builtin_tools

        given, builtin = self._given("tools"), builtin_tools(self.root)
        names = given.value if isinstance(given.value, tuple) else ()
        own: Mapping[str, Tool] = builtin if self.base is None else self.base.tools
        chosen = {} if "none" in names else dict(own)
        for name in names:
            if ":" in name:
                for made in self._imported_tools(name, given.source):
                    if chosen.get(made.name, made) is not made:
                        raise self._wrong(
                            "{where}: two tools are named {tool}; none drops those that are there already",
                            where=_where(given.source, "tools"),
                            tool=made.name,
                        )
                    chosen[made.name] = made
            elif name == DELEGATE:
                chosen[name] = delegate_tool()
            elif name in builtin:
                chosen[name] = builtin[name]
            elif name != "none":
                raise self._wrong(
                    "{where}: {name} is no built-in tool ({known}), nor none, nor MODULE:NAME",
                    where=_where(given.source, "tools"),
                    name=name,
                    known=", ".join((*builtin, DELEGATE)),
                )
        return chosen

    def _imported_tools(self, reference: str, source: Source) -> "Iterable[Tool]":
        from brida.tools.declare import Tool, tool

        where = _where(source, "tools")
        found = imported(reference, source.directory, where, self.say)
        try:
            listed = found if isinstance(found, list | tuple) else [found]
            return [item if isinstance(item, Tool) else tool(item) for item in listed]
        except Exception as error:
            raise cannot_be_used(reference, error, where, self.say) from error

    def _system(self) -> str | None:
        """The system prompt: the text itself, or the file behind an ``@``."""
        given = self._given("system")
        if not isinstance(given.value, str) or not given.value.startswith("@"):
            return None if given.value is None else str(given.value)
        path, directory = given.value[1:], given.source.directory or Path()
        try:
            if given.source.confined:
                data = self._read_inside(directory, path)
            else:
                with open(directory / path, "rb") as file:
                    data = file.read(SYSTEM_PROMPT_LARGEST + 1)
            if len(data) > SYSTEM_PROMPT_LARGEST:
                raise ValueError(self.say("it has more than {limit:,} bytes", limit=SYSTEM_PROMPT_LARGEST))
            return data.decode("utf-8-sig")
        except (OSError, ValueError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
            raise self._wrong(
                "{where}: cannot read {path}: {why}",
                where=_where(given.source, "system"),
                path=path,
                why=reason,
            ) from error

    def _read_inside(self, directory: Path, path: str) -> bytes:
        """A file of the project: somebody else wrote its name, so it leads to no secret and not outside."""
        from brida.tools.paths import PathRefused, is_sensitive, open_inside

        if secret := is_sensitive(directory, path, say=self.say):
            raise ValueError(secret)
        try:
            with open_inside(directory, path, say=self.say) as file:
                return file.read(SYSTEM_PROMPT_LARGEST + 1)
        except PathRefused as error:
            raise ValueError(str(error)) from error

    def _no_model(self) -> ConfigurationError:
        return self._wrong(
            "no model to ask: set ANTHROPIC_API_KEY, or give --base-url and --model of a server that "
            "speaks the Messages API, or install brida[embedded] for a model that needs neither"
        )

    def _wrong(self, text: str, **facts: object) -> ConfigurationError:
        return ConfigurationError(self.say(text, **facts))


def imported(reference: str, directory: Path | None, where: str, say: Say) -> Any:
    """What ``module:name`` names; the module is looked for in ``directory`` first, where there is one."""
    module_name, _, attribute = reference.partition(":")
    if directory is not None and sys.path[:1] != [str(directory)]:
        sys.path.insert(0, str(directory))
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise cannot_be_used(reference, error, where, say) from error
    return found


def cannot_be_used(reference: str, error: BaseException, where: str, say: Say) -> ConfigurationError:
    """The error of a ``module:name`` that gives nothing."""
    why = f"{type(error).__name__}: {error}"
    return ConfigurationError(
        say("{where}: {reference} cannot be used: {why}", where=where, reference=reference, why=why)
    )


def _where(source: Source, key: str) -> str:
    return source.name if source.kind in ("flag", "variable") else f"{source.name}: {key}"
