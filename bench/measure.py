"""Taking the figures: each in a process of its own that has done nothing else before.

The processes are forked from one that has the SDK and brida imported, so that a figure does not hold
the two seconds this takes. Every round takes each figure once, so that noise hits all alike.
"""

import asyncio
import gc
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, Final, TypeAlias

from bench.contenders import ALONE, AT_ONCE, BRIDA, Runner
from bench.keeping import keeping
from bench.spending import spending

Key: TypeAlias = tuple[str, str, int]
"""What was measured, of whom, and at which size."""

Figures: TypeAlias = Mapping[Key, float]
Task: TypeAlias = Callable[[Pool, str], float]

ROOT: Final = Path(__file__).parent.parent
WARM_UP: Final = 3
"""Turns that are done before the clock starts: the first ones open the connection."""

STARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "import brida": ("-c", "import brida"),
    "brida --help": ("-m", "brida", "--help"),
    "import anthropic": ("-c", "import anthropic"),
}
"""Programs whose start is timed: whole processes, the interpreter's own start included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured: the sizes, and in how many rounds.

    ``turns`` and ``memory``: the turns of a run, from short to long. ``starts``: rounds of ``STARTS``.
    ``kept_turns``: those of the run in a journal; ``appends``: how often one is timed. ``spent_turns``: those
    of the run whose tokens are counted.
    """

    turns: tuple[int, int, int]
    memory: tuple[int, int, int]
    runs_at_once: int
    turns_at_once: int
    rounds: int
    rounds_at_once: int
    starts: int
    kept_turns: int
    appends: int
    spent_turns: int = 30


FULL: Final = Plan(
    turns=(10, 100, 500),
    memory=(100, 500, 1000),
    runs_at_once=200,
    turns_at_once=20,
    rounds=5,
    rounds_at_once=2,
    starts=7,
    kept_turns=1_000,
    appends=2_000,
)
QUICK: Final = Plan(
    turns=(10, 100, 500),
    memory=(100, 200, 400),
    runs_at_once=25,
    turns_at_once=20,
    rounds=1,
    rounds_at_once=1,
    starts=2,
    kept_turns=1_000,
    appends=200,
)
SMOKE: Final = Plan(
    turns=(1, 2, 3),
    memory=(2, 4, 6),
    runs_at_once=2,
    turns_at_once=2,
    rounds=1,
    rounds_at_once=1,
    starts=1,
    kept_turns=3,
    appends=3,
    spent_turns=2,
)


def measure(plan: Plan, tell: Callable[[str], None]) -> Figures:
    """Takes every figure of ``plan``, each the median of its rounds.

    CPU is in milliseconds a turn, memory in KiB, a start in milliseconds.
    """
    taken: dict[Key, list[float]] = {}
    with _server() as url, _fresh_processes() as processes:
        for what, rounds, tasks in _tasks(plan):
            for number in range(rounds):
                tell(f"{what}, round {number + 1} of {rounds}")
                for key, task in tasks.items():
                    taken.setdefault(key, []).append(task(processes, url))
        tell("the journal")
        kept = processes.apply(keeping, (plan.kept_turns, plan.appends))
        taken |= {("kept", name, 0): [value] for name, value in kept.items()}
        tell("what a run spends")
        spent = processes.apply(spending, (plan.spent_turns, plan.appends))
        for name, (first, second) in spent.items():
            taken |= {("spent", name, 0): [first], ("spent", name, 1): [second]}
    return {key: statistics.median(values) for key, values in taken.items()}


def _tasks(plan: Plan) -> Iterator[tuple[str, int, dict[Key, Task]]]:
    """What is measured, in how many rounds, and the tasks of a round in their order."""
    yield "start", plan.starts, {("start", name, 0): _start_task(name) for name in STARTS}
    alone = {("cpu", name, turns): _task(cpu, name, turns) for turns in plan.turns for name in ALONE}
    yield "one run", plan.rounds, alone
    runs, turns = plan.runs_at_once, plan.turns_at_once
    crowd = {("at once", name, runs): _task(cpu_at_once, name, runs, turns) for name in AT_ONCE}
    yield f"{runs} runs at once", plan.rounds_at_once, crowd
    yield "memory", 1, {("memory", BRIDA, turns): _task(memory, BRIDA, turns) for turns in plan.memory}


def _task(function: Callable[..., float], *arguments: object) -> Task:
    return lambda processes, url: processes.apply(function, (url, *arguments))


def _start_task(name: str) -> Task:
    return lambda _processes, _url: start(STARTS[name])


# -- what runs in a fresh process


def cpu(url: str, name: str, turns: int) -> float:
    """Milliseconds of CPU a turn, of all threads, in one run of ``turns`` turns."""
    return asyncio.run(_cpu(ALONE[name](url), turns)) / turns


def cpu_at_once(url: str, name: str, runs: int, turns: int) -> float:
    """Milliseconds of CPU a turn where so many runs go on at once."""
    return asyncio.run(_cpu(AT_ONCE[name](url, runs), turns)) / (runs * turns)


async def _cpu(run: Runner, turns: int) -> float:
    await run(WARM_UP)
    gc.collect()
    before = time.process_time()
    await run(turns)
    return (time.process_time() - before) * 1000


def memory(url: str, name: str, turns: int) -> float:
    """KiB that a run of ``turns`` turns holds at its peak, its outcome included; Python's own count."""

    async def peak() -> float:
        run = ALONE[name](url)
        await run(WARM_UP)
        gc.collect()
        tracemalloc.start()
        await run(turns)
        return tracemalloc.get_traced_memory()[1] / 1024

    return asyncio.run(peak())


def start(arguments: Iterable[str]) -> float:
    """Milliseconds until a Python with ``arguments`` has ended."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - before) * 1000


# -- what they run on


@contextmanager
def _server() -> Iterator[str]:
    sys.path.append(str(ROOT / "tests"))
    from support.command import ServerProcess

    with ServerProcess("bench") as server:
        yield server.base_url


@contextmanager
def _fresh_processes() -> Iterator[Pool]:
    """A pool that does each task in a new process."""
    context: Any = multiprocessing
    if "forkserver" in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["bench.contenders"])
    else:
        context = multiprocessing.get_context("spawn")
    with context.Pool(processes=1, maxtasksperchild=1) as pool:
        yield pool
