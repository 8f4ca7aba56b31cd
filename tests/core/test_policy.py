"""Rules: deny beats ask beats allow, in every order and from every source."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.core.policy import TIERS, Policy, Rule

NAMES = ("read_file", "read_mail", "write_file", "send", "r")
PATTERNS = (*NAMES, "*", "?", "**", "read_*", "*_file", "[rs]*", "nothing")
IMPACTS = ("read", "idempotent", "high")

rules = st.builds(
    Rule, st.sampled_from(PATTERNS), st.sampled_from(TIERS), st.sampled_from(("Policy", "--deny", "a file"))
)
cases = st.tuples(
    st.lists(rules, max_size=8),
    st.sampled_from(NAMES),
    st.sampled_from(IMPACTS),
    st.booleans(),
    st.sampled_from(TIERS),
)


def expected(given_rules, tool, impact, declared, default):
    """The precedence, spelled out once more."""
    matching = [
        rule.tier
        for rule in given_rules
        if fnmatchcase(tool, rule.pattern)
        and not (rule.tier == "allow" and impact == "high" and declared and set(rule.pattern) <= set("*?"))
    ]
    for tier in ("deny", "ask", "allow"):
        if tier in matching:
            return tier
    return "allow" if impact == "read" else default


@given(cases)
def test_deny_beats_ask_beats_allow(case):
    given_rules, tool, impact, declared, default = case
    tier, reason = Policy(given_rules, default=default).decide(tool, impact=impact, declared=declared)
    assert tier == expected(*case)
    assert reason.startswith((f"{tier} ", "impact = read", f"default = {default}"))


@given(cases, st.randoms(use_true_random=False), st.integers(0, 8))
def test_neither_the_order_nor_the_source_of_the_rules_matters(case, random, cut):
    given_rules, tool, impact, declared, default = case
    mixed = list(given_rules)
    random.shuffle(mixed)
    split = Policy(mixed[:cut], default=default) + mixed[cut:]
    assert split.decide(tool, impact=impact, declared=declared)[0] == expected(*case)


@given(cases, rules)
def test_another_rule_never_opens_what_a_rule_had_closed(case, more):
    given_rules, tool, impact, declared, default = case
    before, reason = Policy(given_rules, default=default).decide(tool, impact=impact, declared=declared)
    wider = Policy([*given_rules, more], default=default)
    after, _ = wider.decide(tool, impact=impact, declared=declared)
    if reason.startswith(("deny ", "ask ")):
        assert TIERS.index(after) <= TIERS.index(before)


@given(cases)
def test_what_is_denied_by_name_is_denied_whatever_its_impact(case):
    given_rules, tool, *_ = case
    rule = Policy(given_rules).denies(tool)
    assert (rule is not None) is ("deny" in [r.tier for r in given_rules if fnmatchcase(tool, r.pattern)])
    assert rule is None or rule.startswith("deny ")


def test_a_tool_that_no_rule_names_is_allowed_where_it_only_reads():
    assert Policy().decide("t", impact="read") == ("allow", "impact = read")
    assert Policy().decide("t", impact="idempotent") == ("ask", "default = ask")
    assert Policy().decide("t") == ("ask", "default = ask")
    assert Policy(default="deny").decide("t") == ("deny", "default = deny")


def test_a_bare_wildcard_allows_undeclared_tools_but_not_those_declared_high():
    policy = Policy({"*": "allow"})
    assert policy.decide("t", impact="high", declared=False)[0] == "allow"
    assert policy.decide("t", impact="idempotent", declared=True)[0] == "allow"
    assert policy.decide("t", impact="high", declared=True) == ("ask", "default = ask")
    assert Policy({"t*": "allow"}).decide("t", impact="high", declared=True)[0] == "allow"


@pytest.mark.parametrize("tier", ["ask", "deny"])
def test_a_bare_wildcard_closes_every_tool(tier):
    assert Policy({"?*": tier, "t": "allow"}).decide("t", impact="read")[0] == tier


def test_a_rule_says_where_it_was_written():
    assert str(Rule("send_*", "deny", "--deny")) == "deny send_* (--deny)"
    assert Policy({"send_*": "deny"}).denies("send_mail") == "deny send_* (Policy)"


def test_names_are_compared_with_their_case():
    assert Policy({"Read": "deny"}).denies("read") is None


@pytest.mark.parametrize(
    "make, complaint",
    [
        (lambda: Rule("t", "maybe"), "the rule for 't': 'maybe' is no tier"),  # type: ignore[arg-type]
        (lambda: Rule("", "deny"), "names no tool"),
        (lambda: Rule("  ", "deny"), "names no tool"),
        (lambda: Rule("read file", "deny"), "no blanks"),
        (lambda: Policy(["t"]), "rules: expected rules or a mapping of names to tiers, got 't'"),  # type: ignore[list-item]
        (lambda: Policy({"t": "yes"}), "t: 'yes' is no tier"),
        (lambda: Policy(default="Ask"), "default: 'Ask' is no tier"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(make, complaint):
    with pytest.raises(ValueError, match=complaint):
        make()


def test_a_rule_that_only_tightens_does_not_open_what_the_default_denies():
    tightening = Rule("*", "ask", "a project", only_tightens=True)
    closed = Policy([tightening], default="deny")
    assert closed.decide("write")[0] == "deny"
    assert closed.decide("read", impact="read")[0] == "ask"
    assert Policy([tightening, Rule("write", "allow")], default="deny").decide("write")[0] == "ask"
    assert Policy([Rule("*", "ask")], default="deny").decide("write")[0] == "ask"
    assert Policy([Rule("w*", "deny", only_tightens=True)], default="deny").denies("write") is not None


@pytest.mark.parametrize("own", ["allow", "ask", "deny"])
@pytest.mark.parametrize("above", ["allow", "ask", "deny"])
def test_a_policy_within_another_is_the_stricter_of_both(own, above):
    tiers = ("deny", "ask", "allow")
    inner = Policy({"write": own}).within(Policy({"write": above}))
    tier, rule = inner.decide("write")
    assert tier == min(own, above, key=tiers.index)
    assert rule.startswith(f"{tier} write")
    assert inner.__add__([]).decide("write")[0] == tier
    assert inner.denies("write") is None or tier == "deny"


def test_a_policy_within_itself_is_itself_and_three_deep_the_strictest_counts():
    same = Policy({"a": "allow"})
    assert same.within(Policy({"a": "allow"})) == same
    deep = Policy({"a": "allow"}).within(Policy({"a": "ask"})).within(Policy({"a": "deny"}))
    assert deep.decide("a")[0] == "deny"
