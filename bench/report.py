"""The figures as a table, and the bounds that do not depend on the machine."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench.contenders import ALONE, AT_ONCE, BRIDA
from bench.keeping import RESUME, ROWS, SIZE_RATIO
from bench.measure import STARTS, Figures, Plan
from bench.spending import CACHED, PLAIN, RESERVATION, WHO

WIDE: Final = 46
FORMS: Final = ("whole replies", "streaming")


@dataclass(frozen=True, slots=True)
class Bound:
    """A ratio of two figures of one run, and the most it may be."""

    text: str
    ratio: float
    most: float

    def __str__(self) -> str:
        verdict = "PASS" if self.ratio <= self.most else "FAIL"
        return f"{verdict}  {self.text:<{WIDE + 18}}{self.ratio:>7.3f}  at most {self.most:.3g}"


def table(plan: Plan, figures: Figures) -> Iterator[str]:
    """The lines of the table."""
    short, middle, long = plan.turns
    yield _head("CPU, milliseconds a turn; one run of", *(f"{turns} turns" for turns in plan.turns))
    for name in ALONE:
        yield _row(name, *(f"{figures['cpu', name, turns]:.2f}" for turns in (short, middle, long)))
    yield ""
    yield _head(f"the same; runs of {plan.turns_at_once} turns at once", f"{plan.runs_at_once} runs")
    for name in AT_ONCE:
        yield _row(name, f"{figures['at once', name, plan.runs_at_once]:.2f}")
    yield ""
    yield _head("peak memory, KiB; one run of", *(f"{turns} turns" for turns in plan.memory))
    yield _row(BRIDA, *(f"{figures['memory', BRIDA, turns]:,.0f}" for turns in plan.memory))
    yield ""
    yield _head(f"the journal; a run of {plan.kept_turns} turns", "median")
    for name, unit in ROWS.items():
        yield _row(f"{name}, {unit}", f"{figures['kept', name, 0]:.2f}")
    yield ""
    yield _head(f"what a run of {plan.spent_turns} turns spends", "tokens", "US dollars")
    for name in WHO:
        tokens, cost = figures["spent", name, 0], figures["spent", name, 1]
        yield _row(name, f"{tokens:,.0f}", f"{cost:.4f}")
    yield ""
    yield _head("the ceilings of tokens and money", "median")
    yield _row(f"{RESERVATION}, µs", f"{figures['spent', RESERVATION, 0]:.1f}")
    yield ""
    yield _head("start to end, milliseconds", "one process")
    for name in STARTS:
        yield _row(name, f"{figures['start', name, 0]:.0f}")


def bounds(plan: Plan, figures: Figures) -> Iterator[Bound]:
    """What is promised of the figures."""
    _, middle, long = plan.turns
    for form in FORMS:
        mine = figures["cpu", f"brida, {form}", long]
        plain = figures["cpu", f"plain loop, {form}", long]
        runner = figures["cpu", f"tool_runner, {form}", long]
        yield Bound(f"{form}: CPU at {long} turns / the plain loop's", mine / plain, 1 / 4)
        yield Bound(f"{form}: CPU at {long} turns / tool_runner's", mine / runner, 1)
        yield Bound(
            f"{form}: CPU a turn at {long} turns / at {middle}",
            mine / figures["cpu", f"brida, {form}", middle],
            1.3,
        )
    runs = plan.runs_at_once
    cheapest = min(figures["at once", name, runs] for name in AT_ONCE if not name.startswith("brida"))
    for form in FORMS:
        mine = figures["at once", f"brida, {form}", runs]
        yield Bound(f"{form}: CPU of {runs} runs at once / the cheaper plain loop's", mine / cheapest, 1)
    yield Bound("journal: the file / what was said", figures["kept", SIZE_RATIO, 0], 2.5)
    yield Bound("journal: seconds until a long run can go on", figures["kept", RESUME, 0] / 1000, 1)
    saved = figures["spent", CACHED, 1] / figures["spent", PLAIN, 1]
    yield Bound(f"money of {plan.spent_turns} turns with the cache / the plain loop's", saved, 1 / 2)
    yield Bound("memory a turn, longer runs / shorter runs", _growth(plan, figures), 1.25)
    for name in ("import brida", "brida --help"):
        ratio = figures["start", name, 0] / figures["start", "import anthropic", 0]
        yield Bound(f"{name} / import anthropic", ratio, 1 / 8)


def _growth(plan: Plan, figures: Figures) -> float:
    """How much more a turn costs in a long run than in a short one: 1 where memory is linear."""
    small, middle, large = plan.memory
    first, second, third = (figures["memory", BRIDA, turns] for turns in plan.memory)
    return ((third - second) / (large - middle)) / ((second - first) / (middle - small))


def _head(title: str, *columns: str) -> str:
    return _row(title, *columns) + "\n" + "-" * (WIDE + 13 * len(columns))


def _row(name: str, *columns: str) -> str:
    return f"{name:<{WIDE}}" + "".join(f"{column:>13}" for column in columns)
