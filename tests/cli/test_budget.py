"""``brida budget`` where budgets are in use, and what it says of wrong values."""

from decimal import Decimal

import pytest

from brida.journal.base import Settle, SharedReserve
from brida.journal.sqlite import SqliteJournal
from support.folders import Folders
from support.journals import STATE, begun, waits


@pytest.fixture
def folders(tmp_path):
    return Folders(tmp_path)


@pytest.fixture
def journal(folders):
    """The journal of the project, which another process writes to."""
    return SqliteJournal(folders.project / "journal.db")


def spend(journal, name, spent, reserved=None):
    """Lets one run spend so much, and another have so much under way."""
    writer = begun(journal, f"{name}-spends")
    writer.append(waits(1), STATE, charge=SharedReserve((name,), Decimal(spent)))
    writer.append(waits(1), STATE, charge=Settle(Decimal(spent)))
    writer.release()
    if reserved:
        writer = begun(journal, f"{name}-asks")
        writer.append(waits(1), STATE, charge=SharedReserve((name,), Decimal(reserved)))
        writer.release()


def shown(folders, *more):
    ran = folders.run("budget", "list", "--journal", "journal.db", *more)
    assert (ran.code, ran.err) == (0, "")
    return ran


def test_what_is_spent_reserved_and_left_is_shown(folders, journal):
    journal.create_budget("team", Decimal(50), "total")
    spend(journal, "team", "12.50", "2.25")
    assert shown(folders).out == "team: $12.50 of $50.00 spent (29 %), $35.25 left, $2.25 reserved\n"
    (row,) = shown(folders, "--json").object["budgets"]
    assert row.pop("created") > 0
    assert row == {
        "name": "team",
        **{"limit": 50.0, "spent": 12.5, "reserved": 2.25, "left": 35.25},
        **{"per": "total", "period": "total", "ends": None},
    }


@pytest.mark.parametrize(
    "spent, reserved, marked", [("7.99", None, False), ("8", None, True), ("7", "1", True)]
)
def test_from_80_percent_on_a_budget_is_marked(folders, journal, spent, reserved, marked):
    journal.create_budget("team", Decimal(10), "total")
    spend(journal, "team", spent, reserved)
    assert shown(folders).out.startswith("! team: " if marked else "team: ")


def test_until_when_a_period_is_is_said_in_utc_wherever_one_is(folders, journal):
    for per in ("day", "week", "month"):
        journal.create_budget(per, Decimal(10), per)
    rows = [journal.budget(per) for per in ("day", "month", "week")]
    ran = folders.run("budget", "list", "--journal", "journal.db", TZ="Asia/Kolkata")
    lines = ran.out.splitlines()
    assert [line.partition("; ")[2].partition(",")[0] for line in lines] == [row.period for row in rows]
    assert all(line.endswith(" 00:00 UTC") for line in lines)


def test_a_budget_is_of_the_journal_that_is_named(folders, journal):
    made = folders.run("budget", "create", "team", "--limit", "5", "--per", "week", "--journal", "journal.db")
    assert made.code == 0
    assert (journal.budget("team").limit, journal.budget("team").per) == (5, "week")
    assert folders.run("budget", "list", "--json").object["budgets"] == []


@pytest.mark.parametrize("limit", ["-1", "nan", "inf", "off", "1000000", ""])
def test_a_limit_that_makes_no_sense_is_named_with_what_would_be_right(folders, journal, limit):
    journal.create_budget("team", Decimal(5), "total")
    for command in (("create", "other"), ("change", "team")):
        ran = folders.run("budget", *command, f"--limit={limit}", "--journal", "journal.db")
        assert ran.code == 2
        assert "expected US dollars above 0" in ran.err
        assert limit in ran.err
        assert "Traceback" not in ran.err
    assert [(row.name, row.limit) for row in journal.budgets()] == [("team", 5)]


def test_a_budget_that_is_there_is_not_made_again(folders, journal):
    journal.create_budget("team", Decimal(5), "total")
    ran = folders.run("budget", "create", "team", "--limit", "9", "--journal", "journal.db")
    assert ran.code == 2
    assert "there is a budget team already; brida budget change alters it" in ran.err
    assert journal.budget("team").limit == 5
