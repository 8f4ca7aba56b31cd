"""The benchmark runs and prints every row. What it measures is no matter of a test: machines differ."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.process import environment

ROOT = Path(__file__).parent.parent
SOLO = [
    f"{who}, {how}"
    for how in ("whole replies", "streaming")
    for who in ("brida", "plain loop", "tool_runner")
]
AT_ONCE = ["brida, whole replies", "brida, streaming", "plain loop, tasks", "plain loop, threads"]
KEPT = [
    "append, with fsync, p50, ms",
    "append, with fsync, p95, ms",
    "append, without, p50, ms",
    "append, without, p95, ms",
    "a turn with a journal, ms",
    "the same without, ms",
    "the file, a turn of 10,000 characters, KiB",
    "resume of a long run, ms",
]
SPENT = ["brida, prompt cache", "brida, no cache", "plain loop"]
STARTS = ["import brida", "brida --help", "import anthropic"]


@pytest.fixture(scope="module")
def printed() -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--smoke"],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=55,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout.decode().splitlines()


def rows(printed: list[str], heading: str) -> dict[str, list[float]]:
    """The rows of the table under a heading: their names and their figures."""
    start = next(number for number, line in enumerate(printed) if line.startswith(heading))
    found = {}
    for line in printed[start + 2 :]:
        if not line:
            break
        name, *figures = re.split(r"\s{2,}", line.strip())
        found[name] = [float(figure.replace(",", "")) for figure in figures]
    return found


@pytest.mark.parametrize(
    "heading,names,columns",
    [
        ("CPU, milliseconds a turn; one run of", SOLO, 3),
        ("the same; runs of 2 turns at once", AT_ONCE, 1),
        ("peak memory, KiB; one run of", ["brida, streaming"], 3),
        ("the journal; a run of 3 turns", KEPT, 1),
        ("what a run of 2 turns spends", SPENT, 2),
        ("the ceilings of tokens and money", ["the reservation of a request, µs"], 1),
        ("start to end, milliseconds", STARTS, 1),
    ],
)
def test_every_row_has_its_figures(printed, heading, names, columns):
    found = rows(printed, heading)
    assert list(found) == names
    for figures in found.values():
        assert len(figures) == columns
        assert all(figure > 0 for figure in figures)


def test_every_bound_has_a_verdict_and_a_ratio(printed):
    verdicts = [line for line in printed if re.match(r"(PASS|FAIL)  .*\d\.\d{3}  at most \d", line)]
    assert len(verdicts) == 14
    assert len({line[6:60] for line in verdicts}) == 14


def test_the_last_line_says_where_it_was_measured(printed):
    assert re.fullmatch(r"Python 3\.\d+\.\d+\w*, \d+ cores, \d+ s; medians of one run", printed[-1])
