"""The table of settings: one row each, from which files, variables, flags, merging and the docs follow.

A project's file comes with a cloned folder, so somebody else wrote it. Until a person trusts it, it may
only tighten: the row says what that means for its setting.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Final, Literal, TypeAlias

from brida.core.limits import Limits
from brida.core.policy import TIERS, Tier
from brida.settings.kinds import (
    CLOSING_REPLY,
    DURATION,
    JOURNAL,
    LANGUAGE,
    MONEY,
    NAME,
    NAMES,
    ON_ASK,
    RULES,
    SECONDS,
    SWITCH,
    TEXT,
    TIER,
    URL,
    Kind,
    whole,
)
from brida.texts.catalogue import N_

Untrusted: TypeAlias = Literal["free", "lower", "true", "stricter", "always", "never"]
"""What a project's file that nobody trusts can do to a setting: anything; only lower it; only switch it on;
only make it stricter; always add to it; nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting.

    ``key``: its name in a file, after its table's and a point. ``default``: what counts where nothing
    says anything. ``untrusted``: what an untrusted project's file can do. ``flag`` and ``variable``: where
    else it can be given; ``metavar`` and ``help`` are for the flag.
    """

    key: str
    kind: Kind
    untrusted: Untrusted
    help: str
    default: object = None
    flag: str | None = None
    metavar: str = ""
    variable: str = ""

    @property
    def is_rule(self) -> bool:
        """Whether this is a list of rules, secrets or budgets: such lists add up, whoever wrote them."""
        return self.kind is RULES or self.key in ("secrets", "budgets")

    @property
    def repeated(self) -> bool:
        """Whether the flag can be given several times."""
        return self.kind in (RULES, NAMES)


def _setting(
    key: str, kind: Kind, untrusted: Untrusted, help: str, *, flag: str | None = None, metavar: str = ""
) -> Setting:
    """A row; the variable follows from the last part of the key, and a limit's default from ``Limits``."""
    last = key.rpartition(".")[2]
    variable = f"BRIDA_{'POLICY_DEFAULT' if key == 'policy.default' else last.upper()}"
    return Setting(
        key=key,
        kind=kind,
        untrusted=untrusted,
        help=help,
        default=_DEFAULTS.get(key),
        flag=flag,
        metavar=metavar,
        variable=variable,
    )


_DEFAULTS: Final[Mapping[str, object]] = {
    "tools": (),
    "max_tokens": 4096,
    "stop_sequences": (),
    "policy.allow": (),
    "policy.ask": (),
    "policy.deny": (),
    "policy.default": "ask",
    "on_ask": "decline",
    "secrets": (),
    "budgets": (),
    "cache": True,
    **{f"limits.{field.name}": field.default for field in fields(Limits)},
}

SETTINGS: Final = (
    _setting(
        "model",
        NAME,
        "never",
        N_("The model; embedded needs no key and no network."),
        flag="--model",
        metavar="NAME",
    ),
    _setting(
        "base_url",
        URL,
        "never",
        N_("A server that speaks the Messages API."),
        flag="--base-url",
        metavar="URL",
    ),
    _setting(
        "system",
        TEXT,
        "free",
        N_("The system prompt, or the file that holds it."),
        flag="--system",
        metavar="TEXT|@FILE",
    ),
    _setting(
        "language",
        LANGUAGE,
        "free",
        N_("The language, by default that of the locale."),
        flag="--lang",
        metavar="en|es|pt",
    ),
    _setting(
        "tools",
        NAMES,
        "never",
        N_("none drops the built-in tools, others are added."),
        flag="--tools",
        metavar="none|BUILTIN|MODULE:NAME",
    ),
    _setting(
        "max_tokens", whole(1), "lower", N_("Tokens of one reply."), flag="--max-tokens", metavar=N_("NUMBER")
    ),
    _setting(
        "stop_sequences",
        NAMES,
        "never",
        N_("A text at which the model stops; can be repeated."),
        flag="--stop-sequence",
        metavar="TEXT",
    ),
    _setting(
        "limits.max_turns",
        whole(0),
        "lower",
        N_("Turns of tool calls."),
        flag="--max-turns",
        metavar=N_("NUMBER"),
    ),
    _setting(
        "limits.max_requests",
        whole(1),
        "lower",
        N_("Requests to the model."),
        flag="--max-requests",
        metavar=N_("NUMBER"),
    ),
    _setting("limits.max_attempts", whole(1), "lower", N_("Attempts of one request.")),
    _setting("limits.max_calls", whole(0, off=True), "lower", N_("Calls of the whole run, or off.")),
    _setting(
        "limits.max_pauses", whole(0, off=True), "lower", N_("Paused replies that are sent back, or off.")
    ),
    _setting(
        "limits.max_tokens_total",
        whole(1, off=True),
        "lower",
        N_("Tokens of the whole run, or off."),
        flag="--max-tokens-total",
        metavar=N_("NUMBER"),
    ),
    _setting(
        "limits.max_cost",
        MONEY,
        "lower",
        N_("US dollars of the whole run, or off."),
        flag="--max-cost",
        metavar=N_("NUMBER"),
    ),
    _setting(
        "limits.server_tools",
        SWITCH,
        "never",
        N_("Whether replies may be asked for whose price nothing bounds, though a cost limit is set."),
    ),
    _setting("limits.max_depth", whole(0), "lower", N_("How many runs deep a run may start others.")),
    _setting(
        "limits.deadline",
        SECONDS,
        "lower",
        N_("Seconds of work, or off."),
        flag="--deadline",
        metavar=N_("SECONDS"),
    ),
    _setting(
        "limits.deadline_counts_waits",
        SWITCH,
        "true",
        N_("Whether the time between attempts counts for the deadline."),
    ),
    _setting(
        "limits.wait_rate_limit",
        DURATION,
        "lower",
        N_("How long a rate limit is waited out, such as 10m, or off."),
        flag="--wait-rate-limit",
        metavar=N_("TIME"),
    ),
    _setting("limits.no_progress", SWITCH, "true", N_("Whether a run that walks in place is stopped.")),
    _setting(
        "limits.closing_reply",
        whole(1, off=True, on=CLOSING_REPLY),
        "never",
        N_("One more reply after a limit of turns or of the budget, of so many tokens (1024)."),
        flag="--closing-reply",
        metavar="[=NUMBER]",
    ),
    _setting(
        "policy.allow",
        RULES,
        "never",
        N_("Tools, by name or glob, that may run without asking."),
        flag="--allow",
        metavar="RULE",
    ),
    _setting(
        "policy.ask", RULES, "always", N_("Tools for which a person is asked."), flag="--ask", metavar="RULE"
    ),
    _setting("policy.deny", RULES, "always", N_("Tools that never run."), flag="--deny", metavar="RULE"),
    _setting(
        "on_ask",
        ON_ASK,
        "never",
        N_("What a call that needs an answer does where nobody is asked; --park is short for park."),
        flag="--on-ask",
        metavar="decline|park",
    ),
    _setting(
        "approval_ttl",
        SECONDS,
        "lower",
        N_("Seconds after which the answer to a parked call is none any more, or off."),
        flag="--approval-ttl",
        metavar=N_("SECONDS"),
    ),
    _setting(
        "journal",
        JOURNAL,
        "never",
        N_("The file that keeps every run; --no-journal keeps none."),
        flag="--journal",
        metavar=N_("PATH"),
    ),
    _setting(
        "budgets",
        NAMES,
        "never",
        N_("A budget that runs share, made with brida budget; can be repeated."),
        flag="--budget",
        metavar="NAME",
    ),
    _setting(
        "cache",
        SWITCH,
        "never",
        N_("Whether requests are marked for the prompt cache; --no-cache switches it off."),
        flag="--cache",
        metavar="on|off",
    ),
    _setting(
        "secrets",
        NAMES,
        "always",
        N_("Variables whose values nothing may hold, besides those that look secret."),
        flag="--secret",
        metavar="NAME",
    ),
    _setting("policy.default", TIER, "stricter", N_("The tier of a tool that no rule names.")),
)

BY_KEY: Final[Mapping[str, Setting]] = {row.key: row for row in SETTINGS}
BY_VARIABLE: Final[Mapping[str, Setting]] = {row.variable: row for row in SETTINGS}
SDK_BASE_URL: Final = "ANTHROPIC_BASE_URL"
"""The SDK's own variable for the server; ``BRIDA_BASE_URL`` beats it."""


def is_no_looser(key: str, value: object, than: object) -> bool:
    """Whether ``value`` leaves a run no more freedom than ``than``, as an untrusted project's file may.

    The values are those that count: None is off, and ``limits.max_requests`` is a number. Where no order
    is known, only an equal value is no looser; a closing reply may be switched off.
    """
    return _ORDERS[BY_KEY[key].untrusted](value, than) or (key == "limits.closing_reply" and value is None)


def _is_lower(value: object, than: object) -> bool:
    if value is None or than is None:
        return than is None
    if not isinstance(value, int | float) or not isinstance(than, int | float):
        raise TypeError(f"expected numbers, got {value!r} and {than!r}")
    return value <= than


def _is_stricter(value: object, than: object) -> bool:
    strictness: list[Tier | object] = list(TIERS)
    return strictness.index(value) <= strictness.index(than)


def _includes(value: object, than: object) -> bool:
    if not isinstance(value, tuple) or not isinstance(than, tuple):
        raise TypeError(f"expected rules, got {value!r} and {than!r}")
    return set(than) <= set(value)


_ORDERS: Final[Mapping[Untrusted, Callable[[object, object], bool]]] = {
    "free": lambda _value, _than: True,
    "lower": _is_lower,
    "true": lambda value, than: bool(value) or not than,
    "stricter": _is_stricter,
    "always": _includes,
    "never": lambda value, than: value == than,
}
