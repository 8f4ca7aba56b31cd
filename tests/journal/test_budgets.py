"""Budgets that processes share: whatever they do, together they never pass a limit."""

import json
import random
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brida.errors import BudgetExceeded, JournalError, LeaseLost, UnknownBudget, WrongBudget
from brida.journal import budgets, schema
from brida.journal.base import BudgetRow, Reserve, Settle
from brida.journal.sqlite import SqliteJournal
from support.journals import STATE, beginning, begun, events_of, over, waits
from support.process import environment

TEN, WORST = Decimal(10), Decimal(1)


def dollars(text):
    return Decimal(text)


def reserve(writer, amount, *names):
    writer.append(waits(1), STATE, charge=Reserve(names or ("team",), Decimal(amount)))


def settle(writer, amount):
    writer.append(waits(1), STATE, charge=Settle(Decimal(amount)))


def standing(journal, name="team"):
    """What is spent, and what is reserved."""
    row = journal.budget(name)
    return row.spent, row.reserved


def at(monkeypatch, text):
    """Lets the journal believe that it is this time of UTC."""
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    monkeypatch.setattr(budgets.time, "time", lambda: moment)


@pytest.fixture
def team(journal):
    """A journal with a budget of ten dollars."""
    journal.create_budget("team", TEN, "total")
    return journal


# -- what a person does with them


def test_a_journal_that_is_not_there_has_no_budgets_and_is_not_made_by_looking(journal):
    assert journal.budgets() == []
    with pytest.raises(UnknownBudget, match="no budget team"):
        journal.budget("team")
    with pytest.raises(UnknownBudget):
        journal.change_budget("team", TEN)
    assert not journal.path.exists()


def test_budgets_are_listed_by_name(journal):
    for name in ("b", "a.1", "C_-"):
        journal.create_budget(name, Decimal("0.1"), "month")
    assert [row.name for row in journal.budgets()] == ["C_-", "a.1", "b"]
    row = journal.budget("b")
    assert (row.limit, row.per, row.left) == (dollars("0.1"), "month", row.limit)
    assert (row.spent, row.reserved) == (0, 0)


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a/b", "é", "a\n", "x" * 65, "*"])
def test_a_name_that_no_budget_can_have_is_refused(journal, name):
    with pytest.raises(WrongBudget, match="cannot be the name of a budget"):
        journal.create_budget(name, TEN, "total")
    assert journal.budgets() == []


@pytest.mark.parametrize("limit", ["0", "-1", "1000000", "NaN", "sNaN", "Infinity"])
def test_a_limit_that_makes_no_sense_is_refused(team, limit):
    with pytest.raises(WrongBudget, match=f"above 0 and below 1000000, got {limit}"):
        team.create_budget("x", Decimal(limit), "total")
    with pytest.raises(WrongBudget, match=f"got {limit}"):
        team.change_budget("team", Decimal(limit))
    assert [(row.name, row.limit) for row in team.budgets()] == [("team", TEN)]


def test_a_period_that_is_none_is_refused(journal):
    with pytest.raises(WrongBudget, match="day, week, month or total, got 'year'"):
        journal.create_budget("x", TEN, "year")


def test_there_is_one_budget_of_a_name(team):
    with pytest.raises(JournalError, match="a budget team already"):
        team.create_budget("team", Decimal(99), "day")
    assert team.budget("team").limit == TEN


def test_a_limit_may_change_below_what_is_spent(team):
    writer = begun(team)
    reserve(writer, 6)
    settle(writer, 6)
    team.change_budget("team", Decimal(5))
    assert team.budget("team").left == 0
    with pytest.raises(BudgetExceeded):
        reserve(writer, "0.000000000001")
    team.change_budget("team", Decimal(8))
    reserve(writer, 2)


def test_a_budget_that_is_made_again_has_spent_nothing(team):
    writer = begun(team)
    reserve(writer, 6)
    team.remove_budget("team")
    with pytest.raises(UnknownBudget):
        team.remove_budget("team")
    with pytest.raises(UnknownBudget):
        reserve(writer, 1)
    team.create_budget("team", TEN, "total")
    settle(writer, 6)  # its reserve went with the first one
    assert standing(team) == (0, 0)


# -- a reserve and its settlement


def test_a_reserve_becomes_what_was_spent(team):
    writer = begun(team)
    reserve(writer, 4)
    assert standing(team) == (0, 4)
    settle(writer, "1.5")
    assert standing(team) == (dollars("1.5"), 0)
    assert team.budget("team").left == dollars("8.5")


def test_without_an_open_reserve_nothing_is_settled(team):
    writer = begun(team)
    settle(writer, 3)
    reserve(writer, 4)
    settle(writer, 1)
    settle(writer, 1)
    assert standing(team) == (1, 0)


def test_what_fits_exactly_fits(team):
    writer = begun(team)
    reserve(writer, 10)
    with pytest.raises(BudgetExceeded, match="team has not so much left") as exceeded:
        reserve(begun(team, "run-2"), "0.000000000001")
    assert exceeded.value.name == "team"
    assert team.budget("team").left == 0


def test_where_a_reserve_does_not_fit_nothing_is_kept(team):
    team.create_budget("small", Decimal(1), "total")
    writer = begun(team)
    for names, error in ((("team", "small"), BudgetExceeded), (("team", "nobody"), UnknownBudget)):
        with pytest.raises(error):
            reserve(writer, 2, *names)
    assert events_of(team) == beginning()
    assert (standing(team), standing(team, "small")) == ((0, 0), (0, 0))
    reserve(writer, 1, "team", "small")
    assert (standing(team), standing(team, "small")) == ((0, 1), (0, 1))
    assert events_of(team) == [*beginning(), *waits(1)]


def test_a_refused_reserve_leaves_the_one_before_it_open(team):
    writer = begun(team)
    reserve(writer, 4)
    with pytest.raises(BudgetExceeded):
        reserve(writer, 9)
    assert standing(team) == (0, 4)


def test_where_the_events_cannot_be_kept_nothing_is_reserved_or_settled(team):
    writer, broken = begun(team), [replace(waits(1)[0], seconds=float("nan"))]
    with pytest.raises(ValueError, match="JSON"):
        writer.append(broken, STATE, charge=Reserve(("team",), TEN))
    assert standing(team) == (0, 0)
    reserve(writer, 3)
    with pytest.raises(ValueError, match="JSON"):
        writer.append(broken, STATE, charge=Settle(WORST))
    assert standing(team) == (0, 3)


def test_a_run_whose_first_append_does_not_fit_can_begin_later(team):
    writer = team.begin("run-1")
    with pytest.raises(BudgetExceeded):
        writer.append(beginning(), STATE, charge=Reserve(("team",), Decimal(11)))
    assert team.runs() == []
    writer.append(beginning(), STATE, charge=Reserve(("team",), TEN))
    assert events_of(team) == beginning()


def test_a_name_that_is_given_twice_pays_once(team):
    writer = begun(team)
    reserve(writer, 6, "team", "team")
    assert standing(team) == (0, 6)
    settle(writer, 0)
    assert standing(team) == (0, 0)


def test_what_nobody_settled_is_not_settled_by_a_later_request_elsewhere(team):
    team.create_budget("other", TEN, "total")
    writer = begun(team)
    reserve(writer, 3, "team", "other")
    reserve(writer, 1, "team")
    settle(writer, "0.5")
    assert standing(team) == (dollars("3.5"), 0)
    assert standing(team, "other") == (3, 0)


@pytest.mark.parametrize("amount", ["-1", "-0.000000000001", "NaN", "sNaN", "Infinity"])
def test_what_is_no_amount_changes_nothing(team, amount):
    writer = begun(team)
    reserve(writer, 2)
    for charge in (reserve, settle):
        with pytest.raises(ValueError, match="0 or more"):
            charge(writer, amount)
    assert standing(team) == (0, 2)


@pytest.mark.parametrize("amount", ["1000001", "1e8", "1e30", "1e400"])
def test_an_amount_beyond_all_limits_does_not_fit(journal, amount):
    journal.create_budget("team", Decimal("999999.9999999999999"), "total")
    with pytest.raises(BudgetExceeded):
        reserve(begun(journal), amount)


@pytest.mark.parametrize(
    "amount, wanted",
    [
        ("0", 0),
        ("1e-12", 1),
        ("1e-40", 1),
        ("0.1", 10**11),
        ("0.1234567890120000000000000000000001", 123456789013),
        ("999999.999999999999", 10**18 - 1),
    ],
)
@pytest.mark.parametrize("precision", [3, 28, 100])
def test_amounts_are_rounded_up_in_any_context(amount, wanted, precision):
    with localcontext() as context:
        context.prec = precision
        assert budgets.units(Decimal(amount)) == wanted


def test_a_charge_is_on_the_disk_before_anything_else(team):
    writer = begun(team)
    for charge in (Reserve(("team",), WORST), Settle(WORST)):
        writer.append(waits(1), STATE)
        writer.append(waits(1), STATE, charge=charge)
        assert writer._connection.execute("PRAGMA synchronous").fetchone()[0] == 2


# -- periods


@pytest.mark.parametrize(
    "per, moment, period, ends",
    [
        ("day", "2026-12-01 23:59:59.999", "2026-12-01", "2026-12-02"),
        ("day", "2026-12-31", "2026-12-31", "2027-01-01"),
        ("week", "2026-12-01", "2026-W49", "2026-12-07"),
        ("week", "2026-12-06 23:59", "2026-W49", "2026-12-07"),
        ("week", "2027-01-03 12:00", "2026-W53", "2027-01-04"),
        ("week", "2024-12-30", "2025-W01", "2025-01-06"),
        ("month", "2026-12-01", "2026-12", "2027-01-01"),
        ("month", "2028-02-29 23:00", "2028-02", "2028-03-01"),
        ("month", "2026-01-31", "2026-01", "2026-02-01"),
        ("total", "2026-12-01", "total", None),
    ],
)
def test_periods_follow_the_calendar_of_utc(journal, monkeypatch, per, moment, period, ends):
    journal.create_budget("team", TEN, per)
    at(monkeypatch, moment)
    row = journal.budget("team")
    assert row.period == period
    assert row.ends == (ends and datetime.fromisoformat(ends).replace(tzinfo=UTC).timestamp())


@given(st.sampled_from(["day", "week", "month"]), st.floats(0, 4e9))
def test_a_period_ends_where_the_next_begins(per, moment):
    period, ends = budgets.period_at(per, moment)
    assert ends is not None
    assert moment < ends
    assert budgets.period_at(per, ends - 1)[0] == period
    assert budgets.period_at(per, ends)[0] > period


def test_a_new_period_begins_with_the_whole_limit_and_an_old_reserve_is_settled_in_its_own(
    journal, monkeypatch
):
    journal.create_budget("team", TEN, "day")
    writer, other = begun(journal), begun(journal, "run-2")
    at(monkeypatch, "2026-12-01 23:59")
    reserve(writer, 9)
    at(monkeypatch, "2026-12-02 00:01")
    assert journal.budget("team").left == TEN
    reserve(other, 8)
    settle(writer, 2)
    assert standing(journal) == (0, 8)
    at(monkeypatch, "2026-12-01 23:59")
    assert standing(journal) == (2, 0)


# -- runs that end, die or are lost


def test_what_a_removed_run_spent_or_reserved_stays_counted(team):
    for run_id, settled in (("run-1", "1"), ("run-2", None)):
        writer = begun(team, run_id)
        reserve(writer, 3)
        if settled:
            settle(writer, settled)
        writer.release()
        over(team, f"{run_id}-other")
        team.remove(run_id)
    team.sweep(before=2.0)
    team.rebuild()
    assert team.runs() == []
    assert standing(team) == (1, 3)


def test_a_run_that_is_held_again_settles_what_it_had_reserved(team):
    writer = begun(team)
    reserve(writer, 3)
    writer.release()
    again = team.hold("run-1")
    settle(again, 2)
    assert standing(team) == (2, 0)


def test_a_process_that_lost_its_run_changes_no_budget(team):
    writer = begun(team)
    reserve(writer, 3)
    taker = SqliteJournal(team.path).hold("run-1", take_over=True)
    try:
        for charge in (reserve, settle):
            with pytest.raises(LeaseLost):
                charge(writer, 1)
        assert standing(team) == (0, 3)
        settle(taker, 2)
        assert standing(team) == (2, 0)
    finally:
        taker.release()


# -- files of version 1


def made_by_version_1(path):
    """A journal with a run, as brida wrote it before there were budgets."""
    over(SqliteJournal(path), "run-1")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in ("budgets", "budget_totals", "budget_reserves"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 1")


def user_version(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_an_old_file_gets_budgets_and_keeps_its_runs(journal):
    made_by_version_1(journal.path)
    wanted = journal.path.with_name("copy")
    wanted.write_bytes(journal.path.read_bytes())
    assert user_version(journal.path) == 1
    assert [row.run_id for row in journal.runs()] == ["run-1"]
    assert user_version(journal.path) == schema.SCHEMA_VERSION == 2
    assert events_of(journal) == events_of(SqliteJournal(wanted))
    journal.create_budget("team", TEN, "total")
    reserve(journal.hold("run-1"), 1)
    assert standing(journal) == (0, 1)


def test_an_upgrade_that_fails_leaves_the_old_file(journal, monkeypatch):
    made_by_version_1(journal.path)
    monkeypatch.setattr(schema, "MADE_BY", (schema.TABLES, schema.BUDGETS + "CREATE TABLE runs (x TEXT);\n"))
    with pytest.raises(JournalError, match="runs already exists"):
        journal.runs()
    monkeypatch.undo()
    assert user_version(journal.path) == 1
    assert [row.run_id for row in journal.runs()] == ["run-1"]


def test_processes_may_upgrade_a_file_at_once(path):
    for _ in range(5):
        path.unlink(missing_ok=True)
        made_by_version_1(path)
        finished = [look.finish() for look in started(path, 4, "look")]
        assert finished == [["run-1"]] * 4
        assert user_version(path) == 2


# -- for any sequence of what processes do


@dataclass
class Counted:
    """What the journal should say: all that was taken, and what is open, by run and budget; in units."""

    taken: dict[str, int] = field(default_factory=lambda: {"a": 0, "b": 0})
    open: dict[str, dict[str, int]] = field(default_factory=lambda: {run: {} for run in RUNS})

    def reserve(self, run, names, amount):
        if any(self.taken[name] + amount > LIMITS[name] for name in names):
            return False
        for name in names:
            self.taken[name] += amount
        self.open[run] = dict.fromkeys(names, amount)
        return True

    def settle(self, run, part):
        amounts = list(self.open[run].values())
        amount = int(amounts[0] * part) if amounts else 0
        for name, reserved in self.open[run].items():
            self.taken[name] += amount - reserved
        self.open[run] = {}
        return amount


RUNS = ("one", "two", "three")
LIMITS = {"a": 20, "b": 12}
UNIT = budgets.UNIT
steps = st.tuples(
    st.sampled_from(RUNS),
    st.one_of(
        st.tuples(
            st.just("reserve"),
            st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2, unique=True),
            st.integers(0, 9),
        ),
        st.tuples(st.just("settle"), st.floats(0, 1)),
        st.tuples(st.sampled_from(["die", "fail", "take over"])),
    ),
)


def check(journal, counted):
    """Every sum is as counted, and none is above its limit."""
    for row in journal.budgets():
        open_ = sum(amounts.get(row.name, 0) for amounts in counted.open.values())
        assert row.reserved == open_ * UNIT
        assert row.spent + row.reserved == counted.taken[row.name] * UNIT
        assert 0 <= row.spent + row.reserved <= row.limit


def carry_out(journal, writers, counted, run, step):
    match step:
        case "reserve", names, amount:
            try:
                reserve(writers[run], amount * UNIT, *names)
                fitted = True
            except BudgetExceeded:
                fitted = False
            assert fitted == counted.reserve(run, names, amount)
        case "settle", part:
            settle(writers[run], counted.settle(run, part) * UNIT)
        case ("die",):
            writers[run].release()
            writers[run] = journal.hold(run)
        case ("fail",):
            broken = [replace(waits(1)[0], seconds=float("nan"))]
            for charge in (Reserve(("a",), UNIT), Settle(Decimal(0))):
                with pytest.raises((ValueError, BudgetExceeded)):
                    writers[run].append(broken, STATE, charge=charge)
        case _:
            lost, writers[run] = writers[run], journal.hold(run, take_over=True)
            for charge in (Reserve(("a", "b"), UNIT), Settle(Decimal(0))):
                with pytest.raises(LeaseLost):
                    lost.append(waits(1), STATE, charge=charge)
            lost.release()


@settings(max_examples=25, deadline=None)
@given(st.lists(steps, max_size=25))
def test_no_sequence_of_reserves_settlements_and_deaths_passes_a_limit(sequence):
    with tempfile.TemporaryDirectory() as directory:
        journal, counted = SqliteJournal(Path(directory) / "journal.db"), Counted()
        for name, limit in LIMITS.items():
            journal.create_budget(name, limit * UNIT, "total")
        writers = {run: begun(journal, run) for run in RUNS}
        try:
            for run, step in sequence:
                carry_out(journal, writers, counted, run, step)
                check(journal, counted)
        finally:
            for writer in writers.values():
                writer.release()


# -- processes that spend at once

PROGRAM = """
import json, random, sys, time
from decimal import Decimal
from pathlib import Path
from brida.errors import BudgetExceeded
from brida.journal.base import Reserve, Settle
from brida.journal.sqlite import SqliteJournal
from support.journals import STATE, begun, waits

journal, what, number, times = SqliteJournal(Path(sys.argv[1])), sys.argv[2], sys.argv[3], int(sys.argv[4])
WORST = Decimal(1)
reserve = Reserve(("team",), WORST)

def look():
    return [row.run_id for row in journal.runs()]

def die():
    writer = begun(journal, number)
    writer.append(waits(1), STATE, charge=reserve)
    print(json.dumps("reserved"), flush=True)
    time.sleep(60)

def spend():
    writer, chance = begun(journal, number), random.Random(int(number))
    made = refused = spent = 0
    while made < times:
        try:
            writer.append(waits(1), STATE, charge=reserve)
        except BudgetExceeded:
            refused += 1
            row = journal.budget("team")
            if row.limit - row.spent < WORST:  # what is spent never grows less
                break
            time.sleep(0.001)
            continue
        amount = chance.randint(0, 10**12)
        writer.append(waits(1), STATE, charge=Settle(amount * Decimal("1e-12")))
        made, spent = made + 1, spent + amount
    writer.release()
    return [made, refused, spent]

print(json.dumps("ready"), flush=True)
sys.stdin.readline()
print(json.dumps(globals()[what]()), flush=True)
"""


class Spender:
    """The program above, in a process of its own, that waits for the word."""

    def __init__(self, path, what, number, times):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), what, str(number), str(times)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finish(self):
        answer = self.answer()
        self.end()
        assert self.process.returncode == 0
        return answer

    def end(self):
        for stream in (self.process.stdin, self.process.stdout):
            stream.close()
        self.process.wait()


def started(path, count, what, times=0):
    """So many processes that have begun at the same moment."""
    spenders = [Spender(path, what, number, times) for number in range(count)]
    for spender in spenders:
        assert spender.answer() == "ready"
    for spender in spenders:
        spender.go()
    return spenders


def watch(path):
    """From now on the file itself remembers every sum that is above its limit, and the highest of all."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE seen (steps INTEGER, most INTEGER, above INTEGER)")
        connection.execute("INSERT INTO seen VALUES (0, 0, 0)")
        connection.execute(
            "CREATE TRIGGER watch AFTER UPDATE ON budget_totals BEGIN "
            "UPDATE seen SET steps = steps + 1, most = max(most, NEW.amount), above = above + "
            "(NEW.amount > (SELECT ceiling FROM budgets WHERE name = NEW.name)); END"
        )


def seen(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT steps, most, above FROM seen").fetchone()


def race(path, times):
    """Eight processes that want more than there is; all that can be said of what they did."""
    demands = (random.Random(number) for number in range(8))
    demand = sum(chance.randint(0, 10**12) for chance in demands for _ in range(times))
    journal, limit = SqliteJournal(path), Decimal(3 * times)
    assert demand * UNIT > limit + WORST
    journal.create_budget("team", limit, "total")
    watch(path)
    spenders = started(path, 8, "spend", times)
    while spenders[0].process.poll() is None:
        row = journal.budget("team")
        assert 0 <= row.spent + row.reserved <= limit
        assert row.spent >= 0
        assert 0 <= row.reserved <= 8 * WORST
    finished = [spender.finish() for spender in spenders]
    row = journal.budget("team")
    steps_, most, above = seen(path)
    assert above == 0
    assert most <= budgets.units(limit)
    assert steps_ == 2 * sum(made for made, _, _ in finished)
    assert row.spent == sum(spent for _, _, spent in finished) * UNIT
    assert row.reserved == 0
    assert 0 <= row.left < WORST
    assert any(refused for _, refused, _ in finished)


def test_processes_that_spend_at_once_use_a_budget_up_and_never_pass_it(path):
    race(path, 25)


@pytest.mark.long
def test_many_processes_that_spend_for_long_use_a_budget_up_and_never_pass_it(path):
    race(path, 500)


def test_the_reserve_of_a_killed_process_stays_until_its_run_settles_it(team):
    (spender,) = started(team.path, 1, "die")
    try:
        assert spender.answer() == "reserved"
    finally:
        spender.process.kill()
        spender.end()
    assert standing(team) == (0, WORST)
    with pytest.raises(BudgetExceeded):
        reserve(begun(team), "9.5")
    settle(team.hold("0"), "0.25")
    assert standing(team) == (dollars("0.25"), 0)


# -- the row


def test_what_is_left_is_never_below_nothing():
    row = BudgetRow("team", Decimal(1), "total", "total", Decimal(2), Decimal(1), 0.0)
    assert (row.left, row.ends) == (0, None)
