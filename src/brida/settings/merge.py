"""What counts, of all that files, variables and flags say.

``default < user's file < trusted project's file < variables < flags``; what a project's file that nobody
trusts says is laid over the result where it tightens. With an agent that was named, the agent's own
settings stand in place of the files and the variables; then the flags, then the project's tightening.
The language and the journal are the exceptions: an agent that has none of its own has the person's. Rules
are never replaced: they add up, and ``ask`` and ``deny`` come from everywhere.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from brida.core.limits import Limits
from brida.core.policy import Rule, check_tier
from brida.core.wording import Say
from brida.settings.files import SettingsFile
from brida.settings.table import BY_KEY, SETTINGS, Setting, is_no_looser
from brida.settings.values import DEFAULT, Given, Layer, SourceKind
from brida.texts.catalogue import N_

TrustState: TypeAlias = Literal["trusted", "changed", "never"]


@dataclass(frozen=True, slots=True)
class Project:
    """A project's file and whether a person trusts it: ``changed`` is one that was trusted as it was."""

    file: SettingsFile
    state: TrustState = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """All that was said. ``agent``: the settings of the agent that was named, in place of the default."""

    user: Layer = field(default_factory=dict)
    project: Project | None = None
    variables: Layer = field(default_factory=dict)
    flags: Layer = field(default_factory=dict)
    agent: Layer | None = None
    agent_is_the_projects: bool = False


WHY = {
    "never": N_("the file is not trusted: run brida trust"),
    "changed": N_("the file has changed since it was trusted: run brida trust"),
    "beaten": N_("{by} beats it"),
    "agent": N_("the agent has its own"),
    "closing": N_("max_tokens_total leaves no room for it"),
}


@dataclass(frozen=True, slots=True)
class Ignored:
    """A setting that was given and does not count: why is a key of :data:`WHY`, ``by`` what beats it."""

    key: str
    given: Given
    why: str
    by: str = ""

    def words(self, say: Say) -> str:
        """Why it does not count."""
        return say(WHY[self.why], by=self.by)

    @property
    def for_want_of_trust(self) -> bool:
        """Whether trusting the project's file would let it count."""
        return self.why in ("never", "changed")


@dataclass(frozen=True, slots=True)
class Effective:
    """What counts: a value for every setting but the rules, the rules one by one, and what does not count.

    ``only_tightening``: the sources whose rules may close, not open.
    """

    values: Mapping[str, Given]
    rules_given: tuple[tuple[str, Given], ...]
    ignored: tuple[Ignored, ...]
    only_tightening: frozenset[SourceKind] = frozenset()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, each with its source."""
        return tuple(
            Rule(
                str(given.value),
                check_tier(key, key.removeprefix("policy.")),
                given.source.name,
                only_tightens=given.source.kind in self.only_tightening,
            )
            for key, given in self.rules_given
            if key.startswith("policy.")
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the variables that were declared secret."""
        return tuple(str(given.value) for given in self.rules_of("secrets"))

    @property
    def budgets(self) -> tuple[str, ...]:
        """The names of the budgets that the run shares."""
        return tuple(str(given.value) for given in self.rules_of("budgets"))

    def value(self, key: str) -> object:
        """The value of a setting; ``limits.max_requests`` is the number that follows where none is set."""
        return _standing(key, self.values)

    def rules_of(self, key: str) -> list[Given]:
        """The items of a list that adds up, such as ``policy.deny``, one by one."""
        return [given for name, given in self.rules_given if name == key]

    def limits(self) -> Limits:
        """The limits. Raises ``ValueError`` where they contradict each other."""
        prefix = "limits."
        given = {key.removeprefix(prefix): one.value for key, one in self.values.items() if prefix in key}
        return Limits(**given)  # type: ignore[arg-type]


def merged(layers: Layers) -> Effective:
    """What counts, and what does not and why."""
    merge = _Merge({row.key: Given(row.default, DEFAULT) for row in SETTINGS if not row.is_rule})
    project = layers.project
    said: Layer = {} if project is None else project.file.layer
    trusted: Layer = said if project is not None and project.state == "trusted" else {}
    if layers.agent is None:
        opening = [layers.user, trusted, layers.variables, layers.flags]
        merge.lay(*opening)
    else:
        opening = [layers.agent, layers.flags]
        merge.lay(_personal(layers.user), _personal(layers.variables))
        merge.pass_over(layers.user, layers.variables)
        merge.lay(*opening)
    may_loosen = trusted is said and layers.agent is None
    only_tightening: set[SourceKind] = set() if layers.agent is None else {"user", "variable"}
    if project is not None and not (may_loosen or layers.agent_is_the_projects):
        only_tightening.add("project")
        merge.tighten(said, why=project.state if layers.agent is None else "agent")
    merge.keep_closing_reply_possible()
    closing = [layers.agent or {}, layers.user, said, layers.variables, layers.flags]
    rules = (
        *_rules("policy.deny", closing),
        *_rules("policy.ask", closing),
        *_rules("policy.allow", opening),
        *_rules("secrets", closing),
        *_rules("budgets", opening),
    )
    return Effective(merge.values, rules, tuple(merge.ignored), frozenset(only_tightening))


def _personal(layer: Layer) -> Layer:
    """What is the person's whatever the agent: the language, and where the runs are kept."""
    return {key: given for key, given in layer.items() if key in ("language", "journal")}


def _rules(key: str, layers: Iterable[Layer]) -> Iterator[tuple[str, Given]]:
    for given in (layer[key] for layer in layers if key in layer):
        if isinstance(given.value, tuple):
            yield from ((key, Given(pattern, given.source)) for pattern in given.value)


@dataclass(slots=True)
class _Merge:
    values: dict[str, Given]
    ignored: list[Ignored] = field(default_factory=list)

    def lay(self, *layers: Layer) -> None:
        """Every value of the layers counts, in place of what was there."""
        for key, given in ((key, given) for layer in layers for key, given in layer.items()):
            if BY_KEY[key].is_rule:
                continue
            before = self.values[key]
            if before.source.kind not in ("default", "agent"):
                self.ignored.append(Ignored(key, before, "beaten", given.source.name))
            self.values[key] = given

    def pass_over(self, *layers: Layer) -> None:
        """Nothing of the layers counts but the rules that close something."""
        for key, given in ((key, given) for layer in layers for key, given in layer.items()):
            if BY_KEY[key].untrusted != "always" and self.values.get(key) != given:
                self.ignored.append(Ignored(key, given, "agent"))

    def tighten(self, layer: Layer, *, why: str) -> None:
        """What tightens counts; what does not is ignored, and ``why`` is the reason."""
        for row in SETTINGS:
            given = layer.get(row.key)
            if given is None or row.untrusted == "always":
                continue
            now = self.values.get(row.key)
            if now is None:
                self.ignored.append(Ignored(row.key, given, why))
            elif now.source.kind in ("variable", "flag"):
                self.ignored.append(Ignored(row.key, given, "beaten", now.source.name))
            elif given.value == _standing(row.key, self.values):
                continue
            elif (row.untrusted == "free" and why != "agent") or self._is_tighter(row, given):
                self.values[row.key] = given
            else:
                self.ignored.append(Ignored(row.key, given, why))

    def _is_tighter(self, row: Setting, given: Given) -> bool:
        """Whether the value leaves less freedom than the one that counts, in an order that is known."""
        if row.untrusted in ("free", "never"):
            return False
        return is_no_looser(row.key, given.value, _standing(row.key, self.values))

    def keep_closing_reply_possible(self) -> None:
        """Where a project left no more tokens than the closing reply takes, there is none."""
        closing, total = self.values["limits.closing_reply"], self.values["limits.max_tokens_total"]
        if total.source.kind != "project" or not isinstance(closing.value, int):
            return
        if isinstance(total.value, int) and closing.value >= total.value:
            self.values["limits.closing_reply"] = Given(None, total.source)
            self.ignored.append(Ignored("limits.closing_reply", closing, "closing"))


def _standing(key: str, values: Mapping[str, Given]) -> object:
    """The value as it counts; the requests follow from ``max_turns`` where nothing limits them."""
    value = values[key].value
    if key == "limits.max_requests" and value is None:
        turns = values["limits.max_turns"].value
        assert isinstance(turns, int)
        return Limits(max_turns=turns).requests
    return value
