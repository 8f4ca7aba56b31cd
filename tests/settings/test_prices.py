# mypy: disable-error-code="arg-type,union-attr"
"""What files say that models cost: exactly, from whom it counts, shown, and kept with a run."""

import hashlib
import json
import tomllib
from decimal import Decimal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida import Agent, ConfigurationError, ScriptedModel
from brida.cli.flags import Flags
from brida.cli.making import agent_of_record, make_agent
from brida.core.events import Started
from brida.core.prices import Prices
from brida.pricing import package_prices
from brida.settings.build import Builder
from brida.settings.files import find_project_file, read_project_file, user_path
from brida.settings.load import load, what_is_ignored
from brida.settings.merge import merged
from brida.settings.record import record_of, recorded
from brida.settings.schema import checked, json_schema
from brida.settings.trust import TrustStore
from brida.texts.catalogue import ENGLISH
from support.folders import Folders
from support.script import says
from support.server import Server

KNOWN = "claude-sonnet-4-5"
GOOD = 'input = 3.00\noutput = 15.00\ncache_read = 0.30\ncache_write = 3.75\ncurrency = "USD"\n'


def table(name, text=GOOD):
    return f"[prices.{json.dumps(name)}]\n{text}"


def priced(name, input, output):
    return table(name, f"input = {input}\noutput = {output}\n")


@pytest.fixture
def user(tmp_path):
    """Writes the user's own file."""

    def write(text):
        user_path().parent.mkdir(parents=True, exist_ok=True)
        user_path().write_text(text)
        return user_path()

    return write


@pytest.fixture
def project(tmp_path):
    """Writes the project's file; ``trust`` trusts it as it is."""

    def write(text, *, trust=False):
        path = tmp_path / "brida.toml"
        path.write_text(text)
        if trust:
            TrustStore.of_user(ENGLISH).trust(read_project_file(path, ENGLISH))
        return path

    return write


def loaded(directory):
    return load(directory, {}, ENGLISH)


def ignored(directory):
    found = loaded(directory)
    return what_is_ignored(merged(found.layers), found, ENGLISH)


def dollars(input, output):
    return Prices.of(input=str(input), output=str(output)).tiers


# --- the shape of the table -------------------------------------------------------------------------------


def test_a_file_prices_a_model(tmp_path, project):
    path = project(table("my-model"))
    expected = Prices.of(input="3", output="15", cache_read="0.3", cache_write="3.75", source=str(path))
    assert find_project_file(tmp_path, ENGLISH).prices == {"my-model": expected}


def test_pyproject_prices_a_model_too(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.brida.prices."a.b"]\ninput = 1\noutput = 2\n')
    assert find_project_file(tmp_path, ENGLISH).prices["a.b"].tiers == dollars(1, 2)


def test_prices_of_the_cache_may_be_left_out(tmp_path, project):
    project(priced("my-model", 4, 8))
    (meter,) = find_project_file(tmp_path, ENGLISH).prices["my-model"].tiers
    assert meter == Prices.of(input=4, output=8).tiers[0]


@pytest.mark.parametrize("written", ["0.1", "0.30", "3", "1e-7", "0.000000123456789", "1_000.5", "0"])
def test_a_number_is_taken_as_it_is_written(tmp_path, project, written):
    project(priced("m", written, 1))
    (meter,) = find_project_file(tmp_path, ENGLISH).prices["m"].tiers
    assert meter.input == Decimal(written.replace("_", "")) / 1_000_000


@given(units=st.integers(0, 10**12))
def test_a_number_of_up_to_12_digits_is_exact(units):
    exact = Decimal(units) / 10**6
    table = tomllib.loads(f"[prices.m]\ninput = {exact:f}\noutput = {exact:f}\n")
    assert checked(table, "f", ENGLISH)["prices"]["m"] == {"input": exact, "output": exact}


@pytest.mark.parametrize(
    "text, words",
    [
        (
            "input = 1",
            "prices.m.output: expected US dollars a million tokens, from 0, such as 3.00, got nothing",
        ),
        (
            "input = -1\noutput = 1",
            "prices.m.input: expected US dollars a million tokens, from 0, such as 3.00",
        ),
        ("input = 'dear'\noutput = 1", "prices.m.input: expected US dollars a million tokens"),
        ("input = true\noutput = 1", "prices.m.input: expected US dollars"),
        ("input = false\noutput = 1", "prices.m.input: expected US dollars"),
        ("input = 'off'\noutput = 1", "prices.m.input: expected US dollars"),
        ("input = nan\noutput = 1", "prices.m.input: expected US dollars"),
        ("input = inf\noutput = 1", "prices.m.input: expected US dollars"),
        ("input = []\noutput = 1", "prices.m.input: expected US dollars"),
        ("input = 1\noutput = 1\ncache_read = -0.1", "prices.m.cache_read: expected US dollars"),
        (
            "input = 1\noutput = 1\ncurrency = 'EUR'",
            'prices.m.currency: expected USD, the only currency, got "EUR"',
        ),
        ("input = 1\noutput = 1\ncurrency = 'usd'", "prices.m.currency: expected USD, the only currency"),
        ("input = 1\noutput = 1\ncurrency = 1", "prices.m.currency: expected USD, the only currency"),
        ("input = 1\noutputs = 1", "there is no setting prices.m.outputs; did you mean output?"),
        (
            "input = 1\noutput = 1\nzzz = 1",
            "there is no setting prices.m.zzz; what can stand there: input, output",
        ),
    ],
)
def test_a_price_that_makes_no_sense_is_refused_by_name(tmp_path, project, text, words):
    path = project(table("m", text))
    with pytest.raises(ConfigurationError) as caught:
        find_project_file(tmp_path, ENGLISH)
    assert f"{path}: " in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["prices = 3", "prices = []", "[prices]\nm = 3", "[[prices]]\nx = 1"])
def test_prices_are_tables(tmp_path, project, text):
    project(text)
    with pytest.raises(ConfigurationError, match=r"brida\.toml: prices"):
        find_project_file(tmp_path, ENGLISH)


def test_an_agent_has_no_prices_of_its_own(tmp_path, project):
    project("[agents.a.prices.m]\ninput = 1\noutput = 1\n")
    with pytest.raises(ConfigurationError, match=r"there is no setting agents\.a\.prices"):
        find_project_file(tmp_path, ENGLISH)


@pytest.mark.parametrize(
    "of_model, right",
    [
        ({"input": 3.0, "output": 15}, True),
        ({"input": 0, "output": 0, "cache_read": 0, "cache_write": 0, "currency": "USD"}, True),
        ({"input": 3.0}, False),
        ({"input": -1, "output": 1}, False),
        ({"input": "off", "output": 1}, False),
        ({"input": 1, "output": 1, "currency": "EUR"}, False),
        ({"input": 1, "output": 1, "more": 1}, False),
    ],
)
def test_the_schema_and_the_reader_agree(of_model, right):
    file = {"prices": {"my-model": of_model}}
    assert jsonschema.Draft202012Validator(json_schema()).is_valid(file) is right
    if right:
        assert set(checked(file, "f", ENGLISH)["prices"]["my-model"]) == set(of_model)
    else:
        with pytest.raises(ConfigurationError):
            checked(file, "f", ENGLISH)


def test_a_price_is_part_of_what_is_trusted(tmp_path, project):
    project(priced("m", 1, 2), trust=True)
    store = TrustStore.of_user(ENGLISH)
    assert store.state(find_project_file(tmp_path, ENGLISH)) == "trusted"
    project("# dear\n" + table("m", "output = 2\ninput = 1\n"))
    assert store.state(find_project_file(tmp_path, ENGLISH)) == "trusted"
    project(priced("m", "1.5", 2))
    assert store.state(find_project_file(tmp_path, ENGLISH)) == "changed"


def test_the_digest_is_that_of_what_is_written(tmp_path, project):
    path = project("model = 'x'\n" + table("m"))
    canonical = '{"model":"x","prices":{"m":{"cache_read":0.3,"cache_write":3.75,"currency":"USD",'
    canonical += '"input":3.0,"output":15.0}}}'
    assert read_project_file(path, ENGLISH).digest == hashlib.sha256(canonical.encode()).hexdigest()


# --- whose price counts -----------------------------------------------------------------------------------


def test_without_files_there_are_no_prices(tmp_path):
    assert loaded(tmp_path).prices() == {}


def test_the_users_file_prices_any_model_and_may_say_nothing_costs(tmp_path, user):
    user(priced(KNOWN, 1, 2) + priced("mine", 0, 0))
    prices = loaded(tmp_path).prices()
    assert prices[KNOWN].tiers == dollars(1, 2)
    assert prices["mine"].are_zero
    assert prices["mine"].source == str(user_path())


@pytest.mark.parametrize("trust", [True, False])
def test_a_project_prices_a_model_that_nobody_knows(tmp_path, project, trust):
    project(priced("theirs", 1, 2), trust=trust)
    assert loaded(tmp_path).prices()["theirs"].tiers == dollars(1, 2)
    assert ignored(tmp_path) == []


@pytest.mark.parametrize("trust", [True, False])
@pytest.mark.parametrize(
    "name, input, output",
    [
        (KNOWN, "0.01", "0.01"),
        (f"{KNOWN}-20250929", 300, 1500),
        ("theirs", 0, 0),
        ("theirs", 0, 1),
        ("theirs", 1, 0),
        ("theirs", "0.0", "-0.0"),
    ],
)
def test_a_project_can_make_no_known_model_cheaper_and_none_free(
    tmp_path, project, trust, name, input, output
):
    path = project(priced(name, input, output) + priced("other", 1, 1), trust=trust)
    assert list(loaded(tmp_path).prices()) == ["other"]
    (line,) = ignored(tmp_path)
    assert line.startswith(f"{path} may not say what ")
    assert name in line
    assert "above zero" in line
    assert "other" not in line.partition(" costs: ")[0]


@pytest.mark.parametrize("trust", [True, False])
def test_the_users_price_beats_that_of_a_project_and_a_line_says_so(tmp_path, user, project, trust):
    user(priced("shared", 5, 6))
    path = project(priced("shared", 1, 2), trust=trust)
    prices = loaded(tmp_path).prices()
    assert (prices["shared"].tiers, prices["shared"].source) == (dollars(5, 6), str(user_path()))
    assert ignored(tmp_path)[0].startswith(f"{path} may not say what ")


def test_a_project_that_says_the_same_as_the_user_is_worth_no_line(tmp_path, user, project):
    user(priced("shared", "5.0", 6))
    project(priced("shared", 5, "6.00"))
    assert ignored(tmp_path) == []
    assert loaded(tmp_path).prices()["shared"].source == str(user_path())


def test_prices_of_both_files_add_up(tmp_path, user, project):
    user(priced("mine", 1, 1))
    project(priced("theirs", 2, 2))
    assert set(loaded(tmp_path).prices()) == {"mine", "theirs"}


# --- the agent and its record -----------------------------------------------------------------------------


def built(directory, prices, base=None):
    effective = merged(loaded(directory).layers)
    return Builder(effective, directory, ENGLISH, lambda _: None, base, prices)


def test_the_agent_of_the_settings_has_the_prices(tmp_path, user):
    user('model = "mine"\nbase_url = "http://127.0.0.1:1"\n' + priced("mine", 1, 2))
    arguments = built(tmp_path, loaded(tmp_path).prices()).arguments()
    assert arguments["prices"]["mine"].tiers == dollars(1, 2)


def test_what_an_agent_of_code_says_beats_the_files(tmp_path, user):
    own = {"m": Prices.of(input=9, output=9)}
    base = Agent(model=ScriptedModel([], name="m"), prices=own)
    files = {"m": Prices.of(input=1, output=1), "n": Prices.of(input=2, output=2)}
    user('journal = "off"')
    assert built(tmp_path, files, base).arguments()["prices"] == {**files, **own}


def record(directory, prices):
    agent = Agent(model=ScriptedModel([], name="m"), prices=prices)
    return record_of(agent, merged(loaded(directory).layers), directory, None)


def test_a_record_gives_back_the_same_prices(tmp_path):
    tiers = package_prices(KNOWN)
    prices = {"m": Prices.of(input="0.1", output="1e-9", source="f"), KNOWN: tiers}
    written = json.loads(json.dumps(record(tmp_path, prices)))
    assert recorded(written, ENGLISH).prices == prices


def test_numbers_of_a_record_are_texts(tmp_path):
    written = record(tmp_path, {"m": Prices.of(input="0.1", output="15")})
    assert Decimal(written["prices"]["m"]["tiers"][0]["input"]) == Decimal("1E-7")
    assert isinstance(json.loads(json.dumps(written))["prices"]["m"]["tiers"][0]["input"], str)


def test_a_record_of_before_has_no_prices(tmp_path):
    written = record(tmp_path, {})
    del written["prices"]
    assert recorded(written, ENGLISH).prices == {}


@pytest.mark.parametrize("odd", [3, [], {"m": 3}, {"m": {"tiers": []}}, {"m": {}}])
def test_a_record_whose_prices_make_no_sense_is_an_error(tmp_path, odd):
    with pytest.raises(ConfigurationError, match="the settings in the journal cannot be read"):
        recorded({**record(tmp_path, {}), "prices": odd}, ENGLISH)


def test_a_run_that_is_resumed_has_the_prices_that_it_began_with(tmp_path, user):
    user('model = "mine"\nbase_url = "http://127.0.0.1:1"\njournal = "off"\n' + priced("mine", 1, 2))
    flags, tell = Flags({}, root=str(tmp_path)), (lambda _: None)
    agent = make_agent(flags, ENGLISH, tell, lambda _: None)
    kept = json.loads(json.dumps(agent.settings))
    user(priced("mine", 5, 6) + priced("new", 7, 8))
    began = Started(at=0, run_id="r", model="mine", max_tokens=10, max_tokens_ceiling=20, settings=kept)
    again = agent_of_record(began, Flags({}), ENGLISH, tell, lambda _: None)
    assert {name: one.tiers for name, one in again.prices.items()} == {
        "mine": dollars(1, 2),
        "new": dollars(7, 8),
    }


# --- the command line -------------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path):
    made = Folders(tmp_path / "folders")
    made.user_file.write_text(priced("mine", "3.00", 15))
    made.project_file.write_text(priced("theirs", "0.5", 2) + priced(KNOWN, "0.01", "0.01"))
    return made


def test_brida_config_shows_the_prices_with_their_file(folders):
    shown = folders.config()
    assert {one["model"]: (one["input"], one["output"], one["source"]) for one in shown["prices"]} == {
        "mine": ("3", "15", str(folders.user_file)),
        "theirs": ("0.5", "2", str(folders.project_file)),
    }
    (refused,) = [one for one in shown["ignored"] if one["key"].startswith("prices.")]
    assert (refused["key"], refused["source"]) == (f"prices.{KNOWN}", str(folders.project_file))
    assert "nobody else knows" in refused["why"]


def test_brida_config_shows_a_person_the_prices(folders):
    lines = [line.strip() for line in folders.run("config").out.splitlines()]
    each = "input = 0.5, output = 2, cache_read = 0.5, cache_write = 0.625"
    assert f"prices.theirs: {each}  {folders.project_file}" in lines
    below = lines[lines.index("what does not count:") :]
    assert any(line.startswith(f"prices.{KNOWN}: input = 0.01") for line in below)


def test_brida_trust_shows_the_prices_and_those_that_never_count(folders):
    shown = folders.run("trust", "--yes")
    assert shown.code == 0
    assert "    prices.theirs: input = 0.5, output = 2, " in shown.err
    assert f'{folders.project_file} may not say what "{KNOWN}" costs: ' in shown.err
    assert "!" not in shown.err


def test_a_run_under_a_limit_of_money_takes_the_price_of_the_file(folders):
    flags = ["--max-cost", "1", "--json"]
    with Server([says("ok")], require_key=False) as server:
        there = ["go", "--base-url", server.base_url, *flags]
        ran = folders.run(*there, "--model", "theirs")
        assert ran.code == 0, ran.err
        assert Decimal(str(ran.object["cost"])) > 0
        assert str(folders.project_file) in ran.err
        unknown = folders.run(*there, "--model", "nobodys")
        assert unknown.code == 2
        assert "the price of nobodys is not known" in unknown.object["stop"]["detail"]["error"]
        assert len(server.requests) == 1


def test_a_name_in_a_file_cannot_move_the_cursor(folders):
    folders.project_file.write_text('[prices."\\u001b[2J\\u202e"]\ninput = 0\noutput = 0\n')
    for ran in (folders.run("config"), folders.run("trust", "--yes"), folders.run("config")):
        assert ran.code == 0
        assert "\x1b" not in ran.out + ran.err
        assert "\u202e" not in ran.out + ran.err
