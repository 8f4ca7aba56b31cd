"""Budgets that runs share: reserved together with the record or not at all, and never passed."""

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from decimal import Decimal, localcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brida.core.events import Waited
from brida.errors import BudgetExceeded, JournalError, LeaseLost, UnknownBudget, WrongBudget
from brida.journal import budgets, schema
from brida.journal.base import Settle, SharedReserve
from brida.journal.budgets import UNIT, period_at, units
from brida.journal.schema import BUDGETS, SCHEMA_VERSION
from brida.journal.sqlite import SqliteJournal
from support.journals import STATE, beginning, begun, events_of, over, waits

TESTS = Path(__file__).resolve().parent.parent


@pytest.fixture
def team(journal):
    journal.create_budget("team", Decimal("1.00"), "total")
    return journal


def left(journal, name="team"):
    row = journal.budget(name)
    return row.spent, row.reserved, row.left


def reserve(writer, amount, *names):
    writer.append(waits(1), STATE, charge=SharedReserve(names or ("team",), Decimal(amount)))


def settle(writer, amount):
    writer.append(waits(1), STATE, charge=Settle(Decimal(amount)))


def test_a_reserve_counts_until_it_is_settled_and_then_what_it_came_to(team):
    writer = begun(team)
    reserve(writer, "0.40")
    assert left(team) == (0, Decimal("0.4"), Decimal("0.6"))
    settle(writer, "0.15")
    assert left(team) == (Decimal("0.15"), 0, Decimal("0.85"))


def test_what_does_not_fit_is_not_reserved_and_nothing_is_kept(team):
    writer = begun(team)
    before = events_of(team)
    with pytest.raises(BudgetExceeded) as refused:
        reserve(writer, "1.01")
    assert refused.value.name == "team"
    assert (events_of(team), left(team)) == (before, (0, 0, 1))
    reserve(writer, "1.00")
    assert len(events_of(team)) == len(before) + 1


def test_the_smallest_amount_above_what_is_left_does_not_fit(team):
    with pytest.raises(BudgetExceeded):
        reserve(begun(team), Decimal(1) + UNIT)
    reserve(begun(team, "run-2"), Decimal(1))
    with pytest.raises(BudgetExceeded):
        reserve(begun(team, "run-3"), UNIT)
    assert left(team) == (0, 1, 0)


def test_of_several_budgets_all_have_room_or_none_pays(team):
    team.create_budget("tight", Decimal("0.10"), "day")
    writer = begun(team)
    with pytest.raises(BudgetExceeded, match="tight"):
        reserve(writer, "0.20", "team", "tight")
    assert left(team) == (0, 0, 1)
    reserve(writer, "0.05", "team", "tight")
    settle(writer, "0.03")
    assert left(team)[0] == left(team, "tight")[0] == Decimal("0.03")


def test_the_reserve_of_a_run_whose_process_died_stays(team):
    writer = begun(team)
    reserve(writer, "0.40")
    writer.release()
    assert left(team)[1] == Decimal("0.4")
    again = team.hold("run-1")
    settle(again, "0.40")
    assert left(team) == (Decimal("0.4"), 0, Decimal("0.6"))


def test_what_was_spent_stays_where_its_run_is_removed(team):
    writer = begun(team)
    reserve(writer, "0.40")
    settle(writer, "0.25")
    reserve(writer, "0.10")
    writer.release()
    team.remove("run-1")
    assert left(team) == (Decimal("0.25"), Decimal("0.1"), Decimal("0.65"))


def test_a_process_that_lost_its_run_pays_nothing(team):
    writer = begun(team)
    team.hold("run-1", take_over=True)
    with pytest.raises(LeaseLost):
        reserve(writer, "0.40")
    assert left(team) == (0, 0, 1)


def test_settling_without_a_reserve_changes_nothing(team):
    settle(begun(team), "0.40")
    assert left(team) == (0, 0, 1)


def test_more_than_was_reserved_is_counted_though_it_passes_the_limit(team):
    writer = begun(team)
    reserve(writer, "0.90")
    settle(writer, "1.20")
    assert left(team) == (Decimal("1.2"), 0, 0)
    with pytest.raises(BudgetExceeded):
        reserve(writer, "0.000001")


def test_amounts_are_exact_and_rounded_up_below_the_smallest_unit(team):
    writer = begun(team)
    reserve(writer, "0.054399")
    settle(writer, "0.054399")
    assert left(team)[0] == Decimal("0.054399")
    reserve(writer, "1e-15")
    assert left(team)[1] == UNIT


@pytest.mark.parametrize("precision", [3, 28])
@pytest.mark.parametrize(
    "amount, wanted",
    [
        ("0", 0),
        ("1e-40", 1),
        ("0.1234567890120000000000000000000001", 123_456_789_013),
        ("999999.999999999999", 10**18 - 1),
    ],
)
def test_amounts_are_rounded_up_whatever_the_context_of_the_caller(amount, wanted, precision):
    with localcontext() as context:
        context.prec = precision
        assert units(Decimal(amount)) == wanted


@pytest.mark.parametrize("amount", ["-1", "NaN", "sNaN", "Infinity"])
def test_what_is_no_amount_changes_nothing(team, amount):
    writer = begun(team)
    reserve(writer, "0.40")
    for charge in (reserve, settle):
        with pytest.raises(ValueError, match="0 or more"):
            charge(writer, amount)
    assert left(team) == (0, Decimal("0.4"), Decimal("0.6"))


@pytest.mark.parametrize("amount", ["1000001", "1e8", "1e30"])
def test_an_amount_beyond_every_limit_does_not_fit(journal, amount):
    journal.create_budget("team", Decimal("999999.9999999999999"), "total")
    with pytest.raises(BudgetExceeded):
        reserve(begun(journal), amount)


def test_a_budget_that_is_named_twice_pays_once(team):
    writer = begun(team)
    reserve(writer, "0.40", "team", "team")
    assert left(team)[1] == Decimal("0.4")
    settle(writer, "0")
    assert left(team) == (0, 0, 1)


def test_what_nobody_settled_is_not_settled_with_a_later_request_of_other_budgets(team):
    team.create_budget("other", Decimal(1), "total")
    writer = begun(team)
    reserve(writer, "0.30", "team", "other")
    reserve(writer, "0.10", "team")
    settle(writer, "0.05")
    assert left(team) == (Decimal("0.35"), 0, Decimal("0.65"))
    assert left(team, "other") == (Decimal("0.3"), 0, Decimal("0.7"))


def test_where_the_events_cannot_be_kept_nothing_is_reserved_or_settled(team):
    writer, broken = begun(team), [Waited(2.0, float("nan"))]
    with pytest.raises(ValueError, match="JSON"):
        writer.append(broken, STATE, charge=SharedReserve(("team",), Decimal("0.4")))
    assert left(team) == (0, 0, 1)
    reserve(writer, "0.40")
    with pytest.raises(ValueError, match="JSON"):
        writer.append(broken, STATE, charge=Settle(Decimal("0.1")))
    assert left(team)[1] == Decimal("0.4")


def test_a_run_whose_first_events_do_not_fit_can_begin_later(team):
    writer = team.begin("run-1")
    with pytest.raises(BudgetExceeded):
        writer.append(beginning(), STATE, charge=SharedReserve(("team",), Decimal(2)))
    assert team.runs() == []
    writer.append(beginning(), STATE, charge=SharedReserve(("team",), Decimal(1)))
    assert events_of(team) == beginning()


def test_a_charge_is_on_the_disk_before_anything_else(team):
    writer = begun(team)
    for charge in (SharedReserve(("team",), UNIT), Settle(UNIT)):
        modes = []
        for paid in (None, charge):
            writer.append(waits(1), STATE, charge=paid)
            modes.append(writer._connection.execute("PRAGMA synchronous").fetchone()[0])
        assert modes == [1, 2]  # NORMAL, FULL


def test_all_budgets_are_read_as_of_one_moment(team, monkeypatch):
    team.create_budget("other", Decimal(1), "total")
    writer, calls = begun(team), []

    def another_process_reserves_meanwhile(per, at):
        calls.append(per)
        if len(calls) == 2:  # the first budget has been read, the second has not
            reserve(writer, "0.40", "other", "team")
        return period_at(per, at)

    monkeypatch.setattr(budgets, "period_at", another_process_reserves_meanwhile)
    assert [row.reserved for row in team.budgets()] == [0, 0]
    assert [row.reserved for row in team.budgets()] == [Decimal("0.4")] * 2


def test_there_must_be_such_a_budget(journal):
    with pytest.raises(UnknownBudget, match="there is no budget team; brida budget create team"):
        journal.budget("team")
    assert journal.budgets() == []
    writer = begun(journal)
    with pytest.raises(UnknownBudget):
        reserve(writer, "0.1")
    with pytest.raises(UnknownBudget):
        journal.change_budget("team", Decimal(1))
    with pytest.raises(UnknownBudget):
        journal.remove_budget("team")


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 65, "ñ", "a/b", "\x1b[2J"])
def test_a_name_is_plain(journal, name):
    with pytest.raises(WrongBudget, match="cannot be the name of a budget"):
        journal.create_budget(name, Decimal(1), "day")


@pytest.mark.parametrize("limit", ["0", "-1", "NaN", "Infinity", "1000000"])
def test_a_limit_is_an_amount(team, limit):
    for make in (
        lambda: team.create_budget("x", Decimal(limit), "day"),
        lambda: team.change_budget("team", Decimal(limit)),
    ):
        with pytest.raises(WrongBudget, match="limit: expected US dollars above 0"):
            make()


def test_a_budget_is_made_once_changed_and_removed(team):
    with pytest.raises(WrongBudget, match="there is a budget team already"):
        team.create_budget("team", Decimal(2), "day")
    with pytest.raises(WrongBudget, match="per: expected day, week, month or total, got 'year'"):
        team.create_budget("other", Decimal(2), "year")
    writer = begun(team)
    reserve(writer, "0.5")
    team.change_budget("team", Decimal("0.2"))
    assert left(team) == (0, Decimal("0.5"), 0)
    team.remove_budget("team")
    assert team.budgets() == []
    team.create_budget("team", Decimal(1), "total")
    settle(writer, "0.5")  # its reserve went with the budget that was
    assert left(team) == (0, 0, 1)


@pytest.mark.parametrize(
    "per, at, name, ends",
    [
        ("day", 1796135274, "2026-12-01", 1796169600),
        ("day", 1796169600, "2026-12-02", 1796256000),
        ("week", 1796135274, "2026-W49", 1796601600),
        ("week", 1798761600, "2026-W53", 1799020800),
        ("month", 1796135274, "2026-12", 1798761600),
        ("total", 1796135274, "total", None),
    ],
)
def test_a_period_is_of_the_calendar_of_utc(per, at, name, ends):
    assert period_at(per, at) == (name, ends)


def test_a_new_period_begins_with_nothing_spent(journal, monkeypatch):

    journal.create_budget("team", Decimal(1), "day")
    writer = begun(journal)
    reserve(writer, "0.9")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86_400)
    assert left(journal) == (0, 0, 1)
    settle(writer, "0.3")
    assert left(journal) == (0, 0, 1)
    monkeypatch.setattr(time, "time", lambda: now)
    assert left(journal)[0] == Decimal("0.3")


# --- a file of the version before -------------------------------------------------------------------------


def as_version_1(path):
    with closing(sqlite3.connect(path)) as connection:
        for table in ("budgets", "budget_totals", "budget_reserves"):
            assert table in BUDGETS
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()


def test_a_journal_without_budgets_gets_them_and_keeps_its_runs(journal, path):
    over(journal, "run-1")
    before = events_of(journal)
    as_version_1(path)
    other = SqliteJournal(path)
    assert events_of(other) == before
    other.create_budget("team", Decimal(1), "day")
    assert other.budget("team").limit == 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(journal, path, monkeypatch):
    over(journal, "run-1")
    as_version_1(path)
    monkeypatch.setattr(schema, "MADE_BY", (schema.TABLES, BUDGETS + "CREATE TABLE runs (x TEXT);\n"))
    with pytest.raises(JournalError, match="runs already exists"):
        journal.runs()
    monkeypatch.undo()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'budget%'").fetchall() == []
    assert [row.run_id for row in journal.runs()] == ["run-1"]


def test_many_processes_may_upgrade_a_journal_at_once(journal, path):
    over(journal, "run-1")
    as_version_1(path)
    code = "import sys; from pathlib import Path; from brida.journal.sqlite import SqliteJournal; "
    code += "print(len(SqliteJournal(Path(sys.argv[1])).budgets()))"
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [process.communicate(timeout=50)[0].strip() for process in started] == ["0"] * 4


# --- what always holds ------------------------------------------------------------------------------------

steps = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 400), st.floats(0, 1)), max_size=40)


@settings(max_examples=40, deadline=None)
@given(steps)
def test_whatever_is_reserved_settled_or_lost_the_limit_holds(tmp_path_factory, moves):
    journal = SqliteJournal(tmp_path_factory.mktemp("budget") / "journal.db")
    journal.create_budget("team", Decimal(1_000) * UNIT, "total")
    writers = {number: begun(journal, f"run-{number}") for number in range(3)}
    open_: dict[int, int] = {}
    sums = 0
    for number, amount, share in moves:
        dies = number in open_ and share < 0.2  # and another process says that all may be spent
        if dies:
            writers[number].release()
            writers[number] = journal.hold(f"run-{number}")
        if number in open_:
            spent = int(open_.pop(number) * (1.0 if dies else share))
            settle(writers[number], spent * UNIT)
            sums += spent
        else:
            try:
                reserve(writers[number], amount * UNIT)
                open_[number] = amount
            except BudgetExceeded:
                assert sums + sum(open_.values()) + amount > 1_000
        row = journal.budget("team")
        assert (row.spent, row.reserved) == (sums * UNIT, sum(open_.values()) * UNIT)
        assert row.spent + row.reserved <= row.limit
    for writer in writers.values():
        writer.release()


def watch(path):
    """From now on the file itself counts its steps, and those that leave a sum above its limit."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE seen AS SELECT 0 AS steps, 0 AS above")
        connection.execute(
            "CREATE TRIGGER watch AFTER UPDATE ON budget_totals BEGIN UPDATE seen SET steps = steps + 1, "
            "above = above + (NEW.amount > (SELECT ceiling FROM budgets WHERE name = NEW.name)); END"
        )


def seen(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT steps, above FROM seen").fetchone()


def race(path, processes, count, worst, limit):
    """What each process was let, and the budget at the end; at no moment was it passed."""
    journal = SqliteJournal(path)
    journal.create_budget("team", limit * UNIT, "total")
    watch(path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "support.spending", str(path), f"run-{n}", str(count), str(worst), str(n)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for n in range(processes)
    ]
    ended = [process.communicate(timeout=500) for process in started]
    assert [process.returncode for process in started] == [0] * processes, ended
    let = [int(out) for out, _ in ended]
    assert seen(path) == (2 * sum(let), 0)  # a reserve and its settlement each
    return let, journal.budget("team")


def test_processes_together_never_pass_a_budget_and_use_it_up(path):
    let, row = race(path, processes=4, count=60, worst=10_000, limit=500_000)
    assert row.spent + row.reserved <= row.limit
    assert row.left < 10_000 * UNIT
    assert sum(let) > 50


@pytest.mark.long
@pytest.mark.timeout(600)
def test_eight_processes_of_five_hundred_requests_never_pass_a_budget_and_use_it_up(path):
    let, row = race(path, processes=8, count=500, worst=10_000, limit=15_000_000)
    assert row.spent + row.reserved <= row.limit
    assert row.left < 10_000 * UNIT
    assert sum(let) > 2_500


def test_a_journal_that_cannot_be_written_reserves_nothing(team, path):
    writer = begun(team)
    writer._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(JournalError):
        reserve(writer, "0.1")
    assert left(team) == (0, 0, 1)


def test_no_sum_is_too_large_to_be_counted(team):
    writers = [begun(team, f"run-{number}") for number in range(12)]
    for writer in writers:
        reserve(writer, "0.05")
    for writer in writers:
        settle(writer, "1e12")
    row = team.budget("team")
    assert row.spent > 1_000_000
    assert (row.left, row.reserved) == (0, 0)
    with pytest.raises(BudgetExceeded):
        reserve(writers[0], "0.01")
    team.change_budget("team", Decimal(6))
