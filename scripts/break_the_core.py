"""Breaks the core in many small ways, one at a time, and says which of them the tests of the core find.

python scripts/break_the_core.py               # all
python scripts/break_the_core.py turn waiting  # those whose section or name holds one of these words

The breaks are in `core_breaks.toml`: each is a replacement of text that must fit exactly once. It is made in
a copy of `src` in a temporary directory; the tests of the core run against that copy, with a shorter
enumeration. A break that no test finds and that is not listed as harmless gives exit code 1.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = Path("src", "brida", "core")
ENUMERATION_LENGTH = "4"
PROCESSES = 2
SECONDS = 480
"""After so long the core that was broken goes on for ever, which counts as found."""


@dataclass(frozen=True, slots=True)
class Break:
    """One way to break the core. ``harmless``: why no test can find it."""

    section: str
    name: str
    file: str
    old: str
    new: str
    harmless: str = ""


def read_breaks(file: Path) -> tuple[Break, ...]:
    """The breaks of the file, section after section."""
    sections = tomllib.loads(file.read_text(encoding="utf-8"))
    return tuple(Break(section, **one) for section, breaks in sections.items() for one in breaks)


BREAKS = read_breaks(Path(__file__).with_name("core_breaks.toml"))


def snapshot(place: Path) -> None:
    """Copies what is needed, so that an editor at work meanwhile changes nothing."""
    ignore = shutil.ignore_patterns("__pycache__", "test_break_the_core.py")
    shutil.copytree(ROOT / "src", place / "src", ignore=ignore)
    shutil.copytree(ROOT / "tests" / "core", place / "tests" / "core", ignore=ignore)
    shutil.copytree(ROOT / "tests" / "support", place / "tests" / "support", ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", place)


def break_copy(copy: Path, change: Break) -> None:
    """Breaks the core in ``copy``. Raises ``ValueError`` where the text does not fit exactly once."""
    file = copy / CORE / change.file
    text = file.read_text(encoding="utf-8")
    if text.count(change.old) != 1:
        raise ValueError(
            f"{change.name}: found {text.count(change.old)} times in {change.file}: {change.old!r}"
        )
    file.write_text(text.replace(change.old, change.new), encoding="utf-8")


def finder(whole: Path, change: Break | None) -> str | None:
    """The first test that fails on the broken core; None where all pass."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place, "copy")
        shutil.copytree(whole, copy)
        if change is not None:
            break_copy(copy, change)
        own = f"test_{change.file}" if change else ""
        tests = sorted(copy.glob("tests/core/test_*.py"), key=lambda file: (file.name != own, rank(file)))
        world = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(copy / "src"), str(copy / "tests"))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "BRIDA_ENUMERATION_LENGTH": ENUMERATION_LENGTH,
        }
        options = ("-x", "-q", "-m", "not long", "-p", "no:cacheprovider", "--hypothesis-profile=ci")
        try:
            ran = subprocess.run(
                [sys.executable, "-m", "pytest", *options, *map(str, tests)],
                cwd=copy,
                env=world,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "it goes on for ever"
        if ran.returncode == 0:
            return None
        first = re.search(r"^(?:FAILED|ERROR) \S*/(\S+)", ran.stdout, re.MULTILINE)
        return first[1] if first else f"exit code {ran.returncode}: {ran.stdout[-300:]}"


def main() -> int:
    """Breaks the core and reports."""
    words = sys.argv[1:]
    chosen = [b for b in BREAKS if not words or any(word in f"{b.section} {b.name}" for word in words)]
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place, "whole")
        snapshot(whole)
        for change in BREAKS:
            with tempfile.TemporaryDirectory() as other:
                shutil.copytree(whole / CORE, Path(other, CORE))
                break_copy(Path(other), change)
        if by := finder(whole, None):
            print(f"the tests fail on the core as it is: {by}", file=sys.stderr)
            return 2
        return report(whole, chosen)


def rank(test: Path) -> tuple[int, str]:
    """Those that find much soon come first, those that take long last."""
    soon = (
        *("test_loop.py", "test_field_cases.py", "test_state.py", "test_run.py", "test_history.py"),
        *("test_crash.py", "test_crash_of_calls.py", "test_waiting.py", "test_waiting_answers.py"),
        "test_steering.py",
    )
    late = (
        *("test_encoding.py", "test_events.py", "test_enumeration_of_crashes.py", "test_prefixes.py"),
        *("test_properties.py", "test_enumeration.py"),
    )
    place = soon.index(test.name) - len(soon) if test.name in soon else 0
    return late.index(test.name) + 1 if test.name in late else place, test.name


def report(whole: Path, chosen: Sequence[Break]) -> int:
    """Prints what was found of each break; 1 where one survives without a reason."""
    begun, unlisted, found = time.monotonic(), 0, 0
    with ThreadPoolExecutor(PROCESSES) as pool:
        for change, by in zip(chosen, pool.map(partial(finder, whole), chosen), strict=True):
            if by is not None:
                found += 1
                print(
                    f"found     {change.name}{' (listed as harmless)' if change.harmless else ''}: {by}",
                    flush=True,
                )
            else:
                unlisted += not change.harmless
                print(f"SURVIVED  {change.name}: {change.harmless or 'no test finds it'}", flush=True)
    seconds = time.monotonic() - begun
    print(f"{found} of {len(chosen)} found, {unlisted} survived without a reason, {seconds:.0f} s")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
