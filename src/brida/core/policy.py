"""Rules about tools: allow, ask or deny, by name, always with the reason.

``deny`` beats ``ask`` beats ``allow``, whatever the order of the rules and wherever they come from, so
that a rule can be added anywhere and never opens what another closed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from brida.core.events import Impact

Tier: TypeAlias = Literal["allow", "ask", "deny"]
TIERS: tuple[Tier, ...] = ("deny", "ask", "allow")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: the tools whose name matches the glob ``pattern`` get ``tier``.

    ``source`` says where the rule was written (``"--deny"``, ``"Policy"``, a file) and is shown to
    whoever meets the rule. ``only_tightens``: whoever wrote it may close, not open, so its ``ask`` does not
    reach a tool that is denied because no other rule names it. A wrong tier or an empty pattern raises
    ``ValueError``.
    """

    pattern: str
    tier: Tier
    source: str = "Policy"
    only_tightens: bool = False

    def __post_init__(self) -> None:
        check_tier(f"the rule for {self.pattern!r}", self.tier)
        if not self.pattern or "".join(str(self.pattern).split()) != self.pattern:
            raise ValueError(
                f"pattern: {self.pattern!r} names no tool; write a name or a glob such as 'read_*', no blanks"
            )

    def names(self, tool: str, *, high_declared: bool) -> bool:
        """Whether this rule is about ``tool``.

        An allow rule made of wildcards alone does not name a tool whose author declared high impact:
        what is said to be serious is allowed by name or not at all.
        """
        if self.tier == "allow" and high_declared and not self.pattern.strip("*?"):
            return False
        return fnmatchcase(tool, self.pattern)

    def __str__(self) -> str:
        return f"{self.tier} {self.pattern} ({self.source})"


@dataclass(frozen=True, slots=True, init=False)
class Policy:
    """The rules of a run.

    ``Policy({"read_*": "allow", "send_email": "deny"}, default="ask")``: tool names or globs, each with
    its tier; ``default`` is for a tool that no rule names and that is not declared ``impact="read"``.
    ``above``: the policy of the run that started this one, which it can only narrow.
    """

    rules: tuple[Rule, ...]
    default: Tier
    above: "Policy | None"

    def __init__(
        self,
        rules: Mapping[str, str] | Iterable[Rule] = (),
        *,
        default: str = "ask",
        above: "Policy | None" = None,
    ) -> None:
        made = (
            (Rule(name, check_tier(name, tier)) for name, tier in rules.items())
            if isinstance(rules, Mapping)
            else rules
        )
        object.__setattr__(self, "rules", tuple(made))
        for rule in self.rules:
            if not isinstance(rule, Rule):
                raise ValueError(f"rules: expected rules or a mapping of names to tiers, got {rule!r}")
        object.__setattr__(self, "default", check_tier("default", default))
        object.__setattr__(self, "above", above)

    def __add__(self, rules: Iterable[Rule]) -> "Policy":
        return Policy((*self.rules, *rules), default=self.default, above=self.above)

    def within(self, above: "Policy") -> "Policy":
        """This policy, where whatever ``above`` closes stays closed: that of a run which another started."""
        if self == above:
            return self
        return Policy(
            self.rules, default=self.default, above=self.above.within(above) if self.above else above
        )

    def decide(self, tool: str, *, impact: Impact = "high", declared: bool = False) -> tuple[Tier, str]:
        """The tier of ``tool`` and the rule that gives it, in words; of two policies, the stricter one."""
        own = self._decide(tool, impact, declared)
        if self.above is None:
            return own
        higher = self.above.decide(tool, impact=impact, declared=declared)
        return min(higher, own, key=lambda decided: TIERS.index(decided[0]))

    def _decide(self, tool: str, impact: Impact, declared: bool) -> tuple[Tier, str]:
        high_declared = declared and impact == "high"
        naming = [rule for rule in self.rules if rule.names(tool, high_declared=high_declared)]
        if impact != "read" and self.default == "deny" and all(rule.only_tightens for rule in naming):
            naming = [rule for rule in naming if rule.tier == "deny"]
        for tier in TIERS:
            for rule in naming:
                if rule.tier == tier:
                    return tier, str(rule)
        if impact == "read":
            return "allow", "impact = read"
        return self.default, f"default = {self.default}"

    def denies(self, tool: str) -> str | None:
        """The rule that forbids ``tool`` by name, registered or not; None where there is none."""
        tier, rule = self.decide(tool, impact="read")
        return rule if tier == "deny" else None


def check_tier(name: str, tier: str) -> Tier:
    """The tier; raises ``ValueError`` where it is none of the three."""
    if tier not in TIERS:
        raise ValueError(f"{name}: {tier!r} is no tier; it is one of allow, ask, deny")
    return tier
