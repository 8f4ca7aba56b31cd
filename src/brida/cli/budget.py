"""``brida budget``: the budgets that runs share."""

import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, cast

import click

from brida.cli.journal_option import journal_command
from brida.cli.screen import Screen
from brida.settings.kinds import MONEY
from brida.texts.catalogue import Catalogue

if TYPE_CHECKING:
    from brida.journal.base import BudgetRow, Period
    from brida.journal.sqlite import SqliteJournal

VERSION: Final = 1


class _Dollars(click.ParamType[Decimal]):
    """US dollars above 0."""

    name = "dollars"

    def __init__(self, say: Catalogue) -> None:
        self._say = say

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """The amount, exact."""
        try:
            number = MONEY.check(MONEY.read(str(value)))
        except ValueError:
            number = None
        if not number:
            words = self._say("expected US dollars above 0, such as 50, got {value}", value=repr(value))
            raise click.BadParameter(words, ctx, param)
        return Decimal(str(number))


def budget_command(say: Catalogue, screen: Screen) -> click.Group:
    """The command ``budget``."""
    group = click.Group(
        "budget",
        help=say("Budgets in the journal that any number of runs share; --budget NAME counts a run in one."),
        subcommand_metavar=say("COMMAND [ARGUMENTS]"),
    )
    for command in (_create(say, screen), _list(say, screen), _change(say, screen), _remove(say, screen)):
        group.add_command(command)
    return group


def _name() -> click.Argument:
    return click.Argument(["name"], metavar="NAME")


def _limit(say: Catalogue) -> click.Option:
    return click.Option(
        ["--limit"], type=_Dollars(say), required=True, metavar=say("NUMBER"), help=say("US dollars.")
    )


def _create(say: Catalogue, screen: Screen) -> click.Command:
    def create(journal: "SqliteJournal", name: str, limit: Decimal, per: str) -> int:
        journal.create_budget(name, limit, cast("Period", per))
        screen.line(_words(journal.budget(name), say))
        return 0

    per = click.Option(
        ["--per"],
        type=click.Choice(["day", "week", "month", "total"]),
        default="total",
        help=say("How often it begins again, by the calendar of UTC."),
    )
    params: list[click.Parameter] = [_name(), _limit(say), per]
    return journal_command("create", say, create, help=say("Makes a budget."), params=params)


def _list(say: Catalogue, screen: Screen) -> click.Command:
    def show(journal: "SqliteJournal", json: bool) -> int:
        rows = journal.budgets()
        if json:
            screen.json({"version": VERSION, "budgets": [as_object(row) for row in rows]})
            return 0
        if not rows:
            screen.line(say("there are no budgets in {path}", path=journal.path))
        for row in rows:
            screen.out(_words(row, say) + "\n")
        return 0

    params: list[click.Parameter] = [
        click.Option(["--json"], is_flag=True, help=say("Print one JSON object on stdout."))
    ]
    return journal_command("list", say, show, help=say("Lists the budgets and what is left."), params=params)


def _change(say: Catalogue, screen: Screen) -> click.Command:
    def change(journal: "SqliteJournal", name: str, limit: Decimal) -> int:
        journal.change_budget(name, limit)
        screen.line(_words(journal.budget(name), say))
        return 0

    params: list[click.Parameter] = [_name(), _limit(say)]
    return journal_command("change", say, change, help=say("Changes the limit of a budget."), params=params)


def _remove(say: Catalogue, screen: Screen) -> click.Command:
    def remove(journal: "SqliteJournal", name: str) -> int:
        journal.remove_budget(name)
        screen.line(say("the budget {name} is removed", name=name))
        return 0

    return journal_command("remove", say, remove, help=say("Forgets a budget."), params=[_name()])


def as_object(row: "BudgetRow") -> dict[str, object]:
    """A budget as an object of JSON; US dollars are numbers, times seconds since the epoch."""
    amounts = {"limit": row.limit, "spent": row.spent, "reserved": row.reserved, "left": row.left}
    return {
        "name": row.name,
        **{name: float(amount) for name, amount in amounts.items()},
        "per": row.per,
        "period": row.period,
        "ends": row.ends,
        "created": row.created,
    }


def _words(row: "BudgetRow", say: Catalogue) -> str:
    """One line: what of it is spent, reserved and left, and until when."""
    from brida.cli.money import WARNING, dollars

    taken = row.spent + row.reserved
    share = int(100 * taken / row.limit)
    facts = {
        "name": row.name,
        "limit": dollars(row.limit, say),
        "spent": dollars(row.spent, say),
        "left": dollars(row.left, say),
        "share": share,
        "mark": "! " if taken >= WARNING * row.limit else "",
    }
    line = say("{mark}{name}: {spent} of {limit} spent ({share} %), {left} left", **facts)
    if row.reserved:
        line += ", " + say("{reserved} reserved", reserved=dollars(row.reserved, say))
    if row.ends is not None:
        until = time.strftime("%Y-%m-%d %H:%M", time.gmtime(row.ends))
        line += "; " + say("{period}, until {until} UTC", period=row.period, until=until)
    return line
