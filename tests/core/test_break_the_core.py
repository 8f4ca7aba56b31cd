"""The tests of the core can fail: what breaks the core is found."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "break_the_core.py"
BREAKS = tomllib.loads(SCRIPT.with_name("core_breaks.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("section", BREAKS)
def test_every_small_way_to_break_the_core_is_still_one(section):
    for one in BREAKS[section]:
        text = (ROOT / "src" / "brida" / "core" / one["file"]).read_text(encoding="utf-8")
        assert text.count(one["old"]) == 1, one["name"]
        assert one["new"] != one["old"], one["name"]


def test_no_two_ways_to_break_the_core_have_one_name():
    names = [one["name"] for breaks in BREAKS.values() for one in breaks]
    assert len({*names}) == len(names)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_small_way_to_break_the_core_is_found_or_known_to_be_harmless():
    ran = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout[-3_000:] + ran.stderr[-1_000:]
