"""Budgets that runs share, in the journal's own database: a reserve and its record are one transaction.

What is reserved and what is spent are one sum for each budget and period. A reserve is one step that fits or
changes nothing, so any number of processes together never pass the limit. The reserve of a run whose process
died stays in the sum until that run says what became of it, or for good.
"""

import re
import sqlite3
import time
from calendar import timegm
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Final, get_args

from brida.core.wording import Say
from brida.errors import BudgetExceeded, UnknownBudget, WrongBudget
from brida.journal.base import BudgetRow, Charge, Period, SharedReserve
from brida.texts.catalogue import N_

UNIT: Final = Decimal("1e-12")
"""US dollars: sums are whole numbers of these, so that none is ever rounded again."""

MOST: Final = 10**6
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def units(amount: Decimal) -> int:
    """The amount in units, rounded up; beyond what any limit can be it makes no difference how much.

    Raises ``ValueError`` for what is no amount: one below 0 would make room.
    """
    if not (amount.is_finite() and amount >= 0):
        raise ValueError(f"amount: expected US dollars, 0 or more, got {amount}")
    with localcontext() as context:
        context.prec = len(amount.as_tuple().digits) + 12  # exact, whatever the caller's context is
        return int((min(amount, Decimal(2 * MOST)) / UNIT).to_integral_value(ROUND_CEILING))


def period_at(per: Period, at: float) -> tuple[str, float | None]:
    """The period that ``at`` lies in, by the calendar of UTC, and when it ends."""
    day = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    match per:
        case "day":
            name, end = day.strftime("%Y-%m-%d"), day + timedelta(days=1)
        case "week":
            year, week, weekday = day.isocalendar()
            name, end = f"{year}-W{week:02}", day + timedelta(days=8 - weekday)
        case "month":
            name, end = day.strftime("%Y-%m"), (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        case _:
            return "total", None
    return name, float(timegm(end.timetuple()))


def pay(connection: sqlite3.Connection, run_id: str, charge: Charge, say: Say) -> None:
    """Carries out a charge within the transaction that is open.

    Raises :class:`BudgetExceeded` and :class:`UnknownBudget`: the transaction must not be kept then.
    """
    if isinstance(charge, SharedReserve):
        # What nobody settled stays in the sums, and the next settlement is of another request.
        connection.execute("DELETE FROM budget_reserves WHERE run_id = :run_id", {"run_id": run_id})
        for name in dict.fromkeys(charge.names):
            _reserve(connection, run_id, name, units(charge.amount), say)
    else:
        _settle(connection, run_id, units(charge.amount))


def _reserve(connection: sqlite3.Connection, run_id: str, name: str, amount: int, say: Say) -> None:
    row = connection.execute("SELECT ceiling, per FROM budgets WHERE name = :name", {"name": name}).fetchone()
    if row is None:
        raise unknown(name, say)
    ceiling, per = row
    period, _ = period_at(per, time.time())
    facts = {"name": name, "period": period, "amount": amount, "ceiling": ceiling, "run_id": run_id}
    connection.execute(
        "INSERT OR IGNORE INTO budget_totals (name, period, amount) VALUES (:name, :period, 0)", facts
    )
    changed = connection.execute(
        "UPDATE budget_totals SET amount = amount + :amount "
        "WHERE name = :name AND period = :period AND amount + :amount <= :ceiling",
        facts,
    ).rowcount
    if not changed:
        raise BudgetExceeded(say("the budget {name} has not so much left", name=name), name)
    connection.execute(
        "INSERT INTO budget_reserves (run_id, name, period, amount) "
        "VALUES (:run_id, :name, :period, :amount)",
        facts,
    )


def _settle(connection: sqlite3.Connection, run_id: str, amount: int) -> None:
    # Where a server counts more than there is money, the sum stays a whole number that SQLite can hold.
    facts = {"run_id": run_id, "amount": amount, "most": 2 * units(Decimal(2 * MOST))}
    connection.execute(
        "UPDATE budget_totals SET amount = min(budget_totals.amount - kept.amount, :most) + :amount "
        "FROM (SELECT name, period, amount FROM budget_reserves WHERE run_id = :run_id) AS kept "
        "WHERE budget_totals.name = kept.name AND budget_totals.period = kept.period",
        facts,
    )
    connection.execute("DELETE FROM budget_reserves WHERE run_id = :run_id", facts)


# -- what a person does with them


def rows(connection: sqlite3.Connection, name: str | None = None) -> list[BudgetRow]:
    """All budgets by name, or the one of that name, as they stand now."""
    found = connection.execute(
        "SELECT name, ceiling, per, created FROM budgets WHERE :name IS NULL OR name = :name ORDER BY name",
        {"name": name},
    ).fetchall()
    return [_row(connection, *row) for row in found]


def _row(connection: sqlite3.Connection, name: str, ceiling: int, per: Period, created: float) -> BudgetRow:
    period, ends = period_at(per, time.time())
    facts = {"name": name, "period": period}
    taken, reserved = (
        connection.execute(
            f"SELECT coalesce(sum(amount), 0) FROM {table} WHERE name = :name AND period = :period", facts
        ).fetchone()[0]
        for table in ("budget_totals", "budget_reserves")
    )
    spent = (taken - reserved) * UNIT
    return BudgetRow(name, ceiling * UNIT, per, period, spent, reserved * UNIT, created, ends)


def create(connection: sqlite3.Connection, name: str, limit: Decimal, per: Period, say: Say) -> None:
    """A new budget. Raises :class:`WrongBudget` where there is one, or where a value makes no sense."""
    if not NAME.fullmatch(name):
        words = N_("{name} cannot be the name of a budget: up to 64 letters, digits, - _ and . are needed")
        raise WrongBudget(say(words, name=repr(name)))
    if per not in get_args(Period):
        raise WrongBudget(say("per: expected day, week, month or total, got {per}", per=repr(per)))
    facts = {"name": name, "ceiling": _ceiling(limit, say), "per": per, "created": time.time()}
    made = connection.execute(
        "INSERT OR IGNORE INTO budgets (name, ceiling, per, created) "
        "VALUES (:name, :ceiling, :per, :created)",
        facts,
    ).rowcount
    if not made:
        raise WrongBudget(say("there is a budget {name} already; brida budget change alters it", name=name))


def change(connection: sqlite3.Connection, name: str, limit: Decimal, say: Say) -> None:
    """Another limit. Raises :class:`UnknownBudget`, and :class:`WrongBudget` where it makes no sense."""
    facts = {"name": name, "ceiling": _ceiling(limit, say)}
    if not connection.execute("UPDATE budgets SET ceiling = :ceiling WHERE name = :name", facts).rowcount:
        raise unknown(name, say)


def remove(connection: sqlite3.Connection, name: str, say: Say) -> None:
    """Forgets a budget and all its sums. Raises :class:`UnknownBudget`."""
    if not connection.execute("DELETE FROM budgets WHERE name = :name", {"name": name}).rowcount:
        raise unknown(name, say)
    for table in ("budget_totals", "budget_reserves"):
        connection.execute(f"DELETE FROM {table} WHERE name = :name", {"name": name})


def one(connection: sqlite3.Connection, name: str, say: Say) -> BudgetRow:
    """The budget of that name. Raises :class:`UnknownBudget`."""
    found = rows(connection, name)
    if not found:
        raise unknown(name, say)
    return found[0]


def _ceiling(limit: Decimal, say: Say) -> int:
    if not (limit.is_finite() and 0 < limit < MOST):
        words = N_("limit: expected US dollars above 0 and below {most}, got {limit}")
        raise WrongBudget(say(words, most=MOST, limit=limit))
    return units(limit)


def unknown(name: str, say: Say) -> UnknownBudget:
    """That there is no such budget."""
    words = N_("there is no budget {name}; brida budget create {name} --limit 50 makes one")
    return UnknownBudget(say(words, name=name))
