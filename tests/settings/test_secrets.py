"""Variables that are declared secret: whoever declares them, they add up; one that is not set is no error."""

from pathlib import Path

import pytest

from brida import Agent, ScriptedModel
from brida.settings.build import Builder
from brida.settings.coded import rules_of
from brida.settings.merge import Effective, Layers, Project, merged
from brida.settings.record import record_of, recorded, secrets_of
from brida.settings.values import Source
from brida.settings.variables import read_variables
from brida.texts.catalogue import ENGLISH
from support.settings import layer, project_file

USER, FLAG = Source("user", "user.toml"), Source("flag", "--secret")
AGENT = Agent(model=ScriptedModel([]), secrets=["AGENTS", "FLAGS"], language="en")


def declared(directory: Path, state="never", **more) -> Effective:
    return merged(
        Layers(
            user=layer({"secrets": ["USERS"]}, USER),
            project=Project(project_file(directory, {"secrets": ["PROJECTS"]}), state),
            variables=read_variables({"BRIDA_SECRETS": "VARIABLES, SECOND"}, ENGLISH),
            flags=layer({"secrets": ["FLAGS", "USERS"], "journal": "off"}, FLAG),
            **more,
        )
    )


@pytest.mark.parametrize("state", ["never", "changed", "trusted"])
@pytest.mark.parametrize("agent", [None, layer({"model": "m"}, Source("agent", "x"))])
def test_what_every_source_declares_adds_up(tmp_path, state, agent):
    names = declared(tmp_path, state, agent=agent).secrets
    assert sorted(set(names)) == ["FLAGS", "PROJECTS", "SECOND", "USERS", "VARIABLES"]


def test_no_source_that_declares_secrets_is_ignored(tmp_path):
    assert [one.key for one in declared(tmp_path).ignored] == []


def test_the_agent_has_its_own_and_all_that_were_declared_once_each(tmp_path):
    effective = declared(tmp_path)
    made = Builder(effective, tmp_path, ENGLISH, lambda _: None, AGENT).arguments()["secrets"]
    assert made[:2] == ("AGENTS", "FLAGS")
    assert sorted(made) == ["AGENTS", "FLAGS", "PROJECTS", "SECOND", "USERS", "VARIABLES"]
    assert AGENT.replaced(secrets=made).secrets == made


def test_a_declared_variable_that_is_not_set_is_worth_a_word(tmp_path, monkeypatch):
    for name in ("USERS", "VARIABLES", "SECOND"):
        monkeypatch.setenv(name, "set")
    told: list[str] = []
    Builder(declared(tmp_path), tmp_path, ENGLISH, told.append, AGENT).arguments()
    assert sorted(line for line in told if "variable" in line) == [
        "--secret: the variable FLAGS is not set",
        f"{tmp_path / 'brida.toml'}: secrets: the variable PROJECTS is not set",
    ]


def test_an_agents_own_are_shown_with_where_they_come_from():
    shown = [(given.value, str(given.source)) for key, given in rules_of(AGENT, "a:b") if key == "secrets"]
    assert shown == [("AGENTS", "--agent a:b"), ("FLAGS", "--agent a:b")]


def test_a_resumed_run_has_what_was_declared_when_it_began(tmp_path):
    effective = declared(tmp_path)
    kept = recorded(record_of(AGENT, effective, tmp_path, None), ENGLISH)
    assert kept.effective.secrets == effective.secrets


def test_the_record_of_a_run_names_what_its_agent_holds_secret(tmp_path):
    made = Builder(declared(tmp_path), tmp_path, ENGLISH, lambda _: None, AGENT).arguments()
    agent = AGENT.replaced(secrets=made["secrets"])
    record = record_of(agent, declared(tmp_path), tmp_path, None)
    assert secrets_of(record) == agent.secrets
    assert secrets_of(None) == secrets_of({}) == secrets_of({"secrets": 3}) == ()
