# mypy: disable-error-code="arg-type"
# mypy: disable-error-code="call-overload"
"""What counts of all that was said: whatever a project's file says, nothing is looser than without it."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.core.policy import TIERS, Policy
from brida.settings.merge import Effective, Layers, Project, merged
from brida.settings.table import BY_KEY, SETTINGS, is_no_looser
from brida.settings.values import Source
from support.settings import PATTERNS, layer, project_file, some_settings

USER = Source("user", "user.toml")
VARIABLE = Source("variable", "BRIDA_X")
FLAG = Source("flag", "--x")
AGENT = Source("agent", "--agent mine:agent")

TOOLS = st.one_of(PATTERNS, st.text(max_size=8))
IMPACTS = st.sampled_from(["read", "idempotent", "high"])


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def policy(effective: Effective) -> Policy:
    return Policy(effective.rules, default=str(effective.value("policy.default")))


def can_be_run(effective: Effective) -> bool:
    try:
        effective.limits()
    except ValueError:
        return False
    return True


@st.composite
def everything_said(draw):
    """What a user's file, variables, flags and, at times, an agent say."""
    agent = draw(st.none() | some_settings())
    return {
        "user": layer(draw(some_settings()), USER),
        "variables": layer(draw(some_settings()), VARIABLE),
        "flags": layer(draw(some_settings()), FLAG),
        "agent": None if agent is None else layer(agent, AGENT),
    }


@given(said=everything_said(), project=some_settings(), state=st.sampled_from(["never", "changed"]))
def test_no_setting_is_looser_than_without_the_projects_file(folder, said, project, state):
    without = merged(Layers(**said))
    within = merged(Layers(**said, project=Project(project_file(folder, project), state)))
    for row in SETTINGS:
        if not row.is_rule:
            assert is_no_looser(row.key, within.value(row.key), without.value(row.key)), row.key
    assert within.rules_of("policy.allow") == without.rules_of("policy.allow")
    for key in ("policy.ask", "policy.deny", "secrets"):
        assert set(without.rules_of(key)) <= set(within.rules_of(key))
        assert {one.value for one in within.rules_of(key)} >= set(project.get(key, ()))
    assert can_be_run(within) or not can_be_run(without)


@given(
    said=everything_said(),
    project=some_settings(),
    tools=st.lists(st.tuples(TOOLS, IMPACTS, st.booleans()), min_size=1, max_size=20),
)
def test_no_tool_has_a_laxer_tier_than_without_the_projects_file(folder, said, project, tools):
    without = policy(merged(Layers(**said)))
    within = policy(merged(Layers(**said, project=Project(project_file(folder, project)))))
    for name, impact, declared in tools:
        before, _ = without.decide(name, impact=impact, declared=declared)
        after, _ = within.decide(name, impact=impact, declared=declared)
        assert TIERS.index(after) <= TIERS.index(before)


@given(
    said=everything_said(),
    project=some_settings(),
    state=st.sampled_from(["never", "changed", "trusted"]),
)
def test_variables_and_flags_beat_every_file(folder, said, project, state):
    effective = merged(Layers(**said, project=Project(project_file(folder, project), state)))
    last = said["flags"] if said["agent"] is not None else {**said["variables"], **said["flags"]}
    for key, given_ in last.items():
        if BY_KEY[key].is_rule:
            kept = {one.value for one in effective.rules_of(key)}
            assert kept >= set(given_.value)
        elif key != "limits.closing_reply" or effective.value(key) is not None:
            assert effective.values[key] == given_, key


@given(said=everything_said(), project=some_settings())
def test_a_trusted_file_counts_in_full_above_the_users(folder, said, project):
    said["agent"] = None
    file = project_file(folder, project)
    effective = merged(Layers(**said, project=Project(file, "trusted")))
    above = {**said["variables"], **said["flags"]}
    for key, given_ in file.layer.items():
        if BY_KEY[key].is_rule:
            assert {one.value for one in effective.rules_of(key)} >= set(given_.value)
        elif key not in above and (key != "limits.closing_reply" or effective.value(key) is not None):
            assert effective.values[key] == given_, key
    assert not any(one.for_want_of_trust for one in effective.ignored)


@given(said=everything_said(), project=some_settings())
def test_all_that_a_projects_file_says_counts_or_is_reported(folder, said, project):
    file = project_file(folder, project)
    effective = merged(Layers(**said, project=Project(file)))
    reported = {one.key for one in effective.ignored if one.given in file.layer.values()}
    for key, given_ in file.layer.items():
        if BY_KEY[key].is_rule:
            counts = {one.value for one in effective.rules_of(key)} >= set(given_.value)
        else:
            counts = effective.value(key) == given_.value
        assert counts or key in reported or key == "limits.closing_reply", key


def said_by(project, folder, *, user=None, flags=None, variables=None, state="never"):
    return merged(
        Layers(
            user=layer(user or {}, USER),
            project=Project(project_file(folder, project), state),
            variables=layer(variables or {}, VARIABLE),
            flags=layer(flags or {}, FLAG),
        )
    )


def test_a_higher_number_of_requests_does_not_loosen_what_follows_from_the_turns(tmp_path):
    assert said_by({"limits.max_requests": 100}, tmp_path).limits().requests == 46
    assert said_by({"limits.max_requests": 40}, tmp_path).limits().requests == 40
    assert said_by({"limits.max_requests": 20, "limits.max_turns": 1}, tmp_path).limits().requests == 18
    raised = said_by({"limits.max_requests": 100}, tmp_path, flags={"limits.max_turns": 50})
    assert raised.limits().requests == 100


def test_an_ask_rule_of_a_project_does_not_open_what_the_default_denies(tmp_path):
    ask, default = {"policy.ask": ["*"]}, {"policy.default": "deny"}
    untrusted, trusted = (
        policy(said_by(ask, tmp_path, user=default, state=state)) for state in ("never", "trusted")
    )
    assert untrusted.decide("write_file")[0] == "deny"
    assert untrusted.decide("read_file", impact="read")[0] == "ask"
    assert trusted.decide("write_file")[0] == "ask"


def test_the_rules_of_a_person_do_not_open_what_an_agent_closed():
    agent = layer({"policy.default": "deny"}, AGENT)
    asks = {"policy.ask": ["*"]}
    for said in ({"user": layer(asks, USER)}, {"variables": layer(asks, VARIABLE)}):
        assert policy(merged(Layers(agent=agent, **said))).decide("write_file")[0] == "deny"
    assert policy(merged(Layers(agent=agent, flags=layer(asks, FLAG)))).decide("write_file")[0] == "ask"


def test_off_is_the_loosest_limit(tmp_path):
    assert said_by({"limits.max_calls": "off"}, tmp_path).limits().max_calls == 64
    assert (
        said_by({"limits.max_calls": 9}, tmp_path, user={"limits.max_calls": "off"}).limits().max_calls == 9
    )
    assert said_by({"limits.deadline": 2.5}, tmp_path).limits().deadline == 2.5


def test_a_projects_limit_does_not_lower_what_a_variable_or_a_flag_says(tmp_path):
    for said in ({"flags": {"limits.max_turns": 20}}, {"variables": {"limits.max_turns": 20}}):
        effective = said_by({"limits.max_turns": 2}, tmp_path, **said)
        assert effective.limits().max_turns == 20
        assert [one.why for one in effective.ignored] == ["beaten"]


def test_a_closing_reply_that_a_projects_budget_leaves_no_room_for_is_off(tmp_path):
    flags = {"limits.closing_reply": "on"}
    effective = said_by({"limits.max_tokens_total": 1024}, tmp_path, flags=flags)
    assert effective.limits().closing_reply is None
    assert [(one.key, one.why) for one in effective.ignored] == [("limits.closing_reply", "closing")]
    assert said_by({"limits.max_tokens_total": 1025}, tmp_path, flags=flags).limits().closing_reply == 1024


def test_a_closing_reply_of_a_project_counts_only_once_it_is_trusted(tmp_path):
    project = {"limits.closing_reply": True}
    assert said_by(project, tmp_path).limits().closing_reply is None
    assert said_by(project, tmp_path, state="trusted").limits().closing_reply == 1024
    off = said_by({"limits.closing_reply": False}, tmp_path, user={"limits.closing_reply": 500})
    assert off.limits().closing_reply == 500


def test_each_rule_says_where_it_was_written(tmp_path):
    effective = said_by(
        {"policy.deny": ["a"]}, tmp_path, user={"policy.ask": ["b"]}, flags={"policy.allow": ["c"]}
    )
    file = str(tmp_path / "brida.toml")
    assert {str(rule) for rule in effective.rules} == {
        f"deny a ({file})",
        "ask b (user.toml)",
        "allow c (--x)",
    }


def test_an_agent_keeps_its_own_settings_but_every_closing_rule_holds(tmp_path):
    effective = merged(
        Layers(
            user=layer(
                {"model": "mine", "policy.deny": ["d"], "policy.allow": ["a"], "language": "es"}, USER
            ),
            project=Project(
                project_file(
                    tmp_path,
                    {"system": "theirs", "limits.max_turns": 3, "policy.ask": ["b"], "language": "pt"},
                )
            ),
            variables=layer({"limits.max_calls": 1, "policy.deny": ["e"]}, VARIABLE),
            flags=layer({"limits.max_pauses": 2}, FLAG),
            agent=layer({"model": "its", "limits.max_turns": 20, "system": "its"}, AGENT),
        )
    )
    assert [effective.value(key) for key in ("model", "system", "language")] == ["its", "its", "es"]
    limits = effective.limits()
    assert (limits.max_turns, limits.max_calls, limits.max_pauses) == (3, 64, 2)
    assert {(rule.tier, rule.pattern) for rule in effective.rules} == {
        ("deny", "d"),
        ("deny", "e"),
        ("ask", "b"),
    }


def test_an_agent_of_a_trusted_project_is_not_lowered_by_the_rest_of_its_file(tmp_path):
    project = Project(project_file(tmp_path, {"limits.max_turns": 3}), "trusted")
    agent = layer({"limits.max_turns": 20}, AGENT)
    own = merged(Layers(project=project, agent=agent, agent_is_the_projects=True))
    other = merged(Layers(project=project, agent=agent))
    assert (own.limits().max_turns, other.limits().max_turns) == (20, 3)
