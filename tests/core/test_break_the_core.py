"""The tests of the core can fail: what breaks the core is found."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "break_the_core.py"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_small_way_to_break_the_core_is_found_or_known_to_be_harmless():
    ran = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout[-3_000:] + ran.stderr[-1_000:]
