"""``brida usage``: what the runs of the journal came to, by run, day, model, tool, budget or turn."""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import click

from brida.cli.journal_option import complete_ids, events_of, journal_command
from brida.cli.screen import Screen
from brida.errors import ConfigurationError, JournalError
from brida.texts.catalogue import N_, Catalogue
from brida.texts.terminal import escape, shorten

if TYPE_CHECKING:
    from brida.core.events import Started
    from brida.core.spending import Amount, RequestSpent
    from brida.journal.base import RunRow
    from brida.journal.sqlite import SqliteJournal

VERSION: Final = 1
WAYS: Final = ("run", "day", "model", "tool", "budget", "turn")
HEADS: Final = {
    "run": N_("run"),
    "day": N_("day"),
    "model": N_("model"),
    "tool": N_("tool"),
    "budget": N_("budget"),
    "turn": N_("turn"),
}
By: TypeAlias = Literal["run", "day", "model", "tool", "budget", "turn"]
AGES: Final = {"h": 3_600, "d": 86_400, "w": 604_800}
MOST_BARS: Final = 30
"""Bars of one plot: the dearest are drawn."""

SMALL: Final = 0.1
"""US dollars below which the bars are in thousandths."""

TEXT = N_("(a person's text)")
NO_BUDGET = N_("(no budget)")


@dataclass(frozen=True, slots=True)
class Line:
    """What one key came to."""

    key: str
    requests: int
    amount: "Amount"

    def as_object(self) -> dict[str, object]:
        """The line as an object of JSON."""
        from brida.runtime.outcome import as_json

        return {"key": self.key, "requests": self.requests, **as_json(self.amount)}


def usage_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``usage``."""

    def show(journal: "SqliteJournal", run: str | None, by: By | None, **values: Any) -> int:
        way: By = by or ("run" if run is None else "turn")
        if way == "turn" and run is None:
            raise ConfigurationError(say("--by turn: say of which run, such as brida usage - --by turn"))
        after = 0.0 if values["since"] is None else _moment(values["since"], say)
        spent = list(_spent(journal, run, after, say, screen))
        lines, total = summed(spent, way, say), _sum(summed(spent, "run", say))
        if values["json"]:
            rows = [line.as_object() for line in lines]
            screen.json({"version": VERSION, "by": way, "rows": rows, "total": total.as_object()})
            return 0
        if not lines:
            screen.line(say("nothing was spent in {path}", path=journal.path))
            return 0
        for text in table(lines, total, way, say, screen.out_width):
            screen.out(text + "\n")
        if screen.out_is_terminal if values["plot"] is None else values["plot"]:
            _draw(lines, say, screen)
        return 0

    return journal_command(
        "usage",
        say,
        show,
        help=say("Sums up what the runs of the journal came to, and draws it; of one run, turn by turn."),
        params=[
            click.Argument(["run"], required=False, metavar=say("[RUN]"), shell_complete=complete_ids),
            click.Option(["--by"], type=click.Choice(WAYS), help=say("By what it is summed up.")),
            click.Option(
                ["--since"], metavar="7d|2026-11-30", help=say("Only since then: an age, or a day.")
            ),
            click.Option(["--json"], is_flag=True, help=say("Print one JSON object on stdout.")),
            click.Option(
                ["--plot/--no-plot"], default=None, help=say("Whether it is drawn; on a terminal it is.")
            ),
        ],
    )


Spent: TypeAlias = "tuple[RunRow, Started, RequestSpent]"


def _spent(
    journal: "SqliteJournal", run: str | None, after: float, say: Catalogue, screen: Screen
) -> Iterator[Spent]:
    """Every request of the runs, but those that a fork has from the run it was forked from."""
    from brida.core.events import Started
    from brida.core.spending import spending

    wanted = None if run is None else journal.find(run)
    for row in sorted(journal.runs(), key=lambda row: row.created):
        if row.updated < after or wanted not in (None, row.run_id):
            continue
        try:
            events = events_of(journal, row.run_id)
            spent = spending(events)
        except (JournalError, ValueError) as error:
            screen.line(say("left out: {why}", why=error))
            continue
        started = events[0]
        assert isinstance(started, Started)
        forked_at = int((started.forked_from or ":0").rpartition(":")[2])
        for one in spent.requests:
            if one.seq > forked_at and one.at >= after:
                yield row, started, one


def summed(spent: Iterable[Spent], by: By, say: Catalogue) -> list[Line]:
    """The requests summed up by ``by``, in the order in which each key first came."""
    from brida.core.spending import part

    found: dict[str, list[Amount]] = {}
    counts: dict[str, int] = {}
    for row, started, one in spent:
        for key, share in _keys(by, row, started, one, say).items():
            found.setdefault(key, []).append(part(one.amount, share))
            counts[key] = counts.get(key, 0) + 1
    return [Line(key, counts[key], _added(amounts)) for key, amounts in found.items()]


def _added(amounts: "Sequence[Amount]") -> "Amount":
    from brida.core.spending import Amount

    return sum(amounts, Amount())


def _sum(lines: Sequence[Line]) -> Line:
    return Line("", sum(line.requests for line in lines), _added([line.amount for line in lines]))


def _keys(by: By, row: "RunRow", started: "Started", one: "RequestSpent", say: Catalogue) -> dict[str, float]:
    """What a request counts for, each with its share of it."""
    match by:
        case "run":
            return {row.run_id: 1.0}
        case "day":
            return {time.strftime("%Y-%m-%d", time.localtime(one.at)): 1.0}
        case "model":
            return {started.model: 1.0}
        case "tool":
            return dict(one.reads) or {say(TEXT): 1.0}
        case "budget":
            return dict.fromkeys(started.budgets, 1.0) or {say(NO_BUDGET): 1.0}
        case "turn":
            return {say("turn {number}", number=one.number): 1.0}


def _moment(text: str, say: Catalogue) -> float:
    """Seconds since the epoch of an age or a day."""
    if found := re.fullmatch(r"(\d{1,6})([hdw])", text.strip(), re.ASCII):
        return time.time() - int(found[1]) * AGES[found[2]]
    try:
        return time.mktime(time.strptime(text.strip(), "%Y-%m-%d"))
    except (ValueError, OverflowError):
        words = N_("--since: expected an age such as 12h or 7d, or a day such as 2026-11-30, got {text}")
        raise ConfigurationError(say(words, text=repr(text))) from None


def table(lines: Sequence[Line], total: Line, by: By, say: Catalogue, width: int) -> list[str]:
    """The lines and their sum, each no wider than ``width``."""
    from brida.cli.listing import short_of

    names = short_of([line.key for line in lines]) if by == "run" else {}
    head = (say(HEADS[by]), say("requests"), say("input"), say("from cache"), say("output"), say("cost"))
    cells = [head, *(_cells(line, names.get(line.key, line.key), say) for line in lines)]
    cells += [_cells(total, say("sum"), say)] if len(lines) > 1 else []
    widths = [max(len(cell[at]) for cell in cells) for at in range(len(head))]
    return [shorten(_aligned(cell, widths), width) for cell in cells]


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first to the left, numbers to the right."""
    numbers = (f"{cell:>{width}}" for cell, width in zip(cells[1:], widths[1:], strict=True))
    return "  ".join((f"{cells[0]:<{widths[0]}}", *numbers))


def _cells(line: Line, name: str, say: Catalogue) -> tuple[str, ...]:
    from brida.cli.money import dollars

    usage, cost = line.amount.usage, line.amount.cost
    share = round(100 * usage.cache_read_input_tokens / usage.input) if usage.input else 0
    shown = say("unknown") if cost is None else dollars(cost, say)
    if line.amount.held:
        shown = say("{cost} + {held} held", cost=shown, held=dollars(line.amount.held, say))
    tokens = (say.number(usage.input), f"{share} %", say.number(usage.output_tokens))
    return (escape(name), say.number(line.requests), *tokens, shown)


def _draw(lines: Sequence[Line], say: Catalogue, screen: Screen) -> None:
    """Bars of what each line cost, or of its tokens where a price is not known."""
    try:
        import plotext
    except ImportError:
        screen.line(say("the package plotext would draw it: pip install brida[plot]"))
        return
    known = all(line.amount.cost is not None for line in lines) and any(line.amount.cost for line in lines)
    sizes = [
        float((line.amount.cost or 0) + line.amount.held) if known else float(line.amount.usage.total)
        for line in lines
    ]
    title = say("cost, US dollars") if known else say("tokens")
    if known and max(sizes) < SMALL:
        sizes, title = [1_000 * size for size in sizes], say("cost, thousandths of a US dollar")
    drawn = sorted(sorted(range(len(sizes)), key=lambda index: -sizes[index])[:MOST_BARS])
    if not max(sizes):
        return
    labels = [shorten(escape(lines[index].key), 24) for index in drawn]
    width = min(100, screen.out_width)
    plotext.clear_figure()
    plotext.simple_bar(labels, [sizes[index] for index in drawn], width=width, title=title)
    screen.out("\n" + plotext.uncolorize(plotext.build()).rstrip("\n") + "\n")
