"""Running the command line as a process of its own, in a clean environment."""

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BRIDA = [sys.executable, "-m", "brida"]

NOBODY = tempfile.mkdtemp(prefix="brida-tests-")
"""The home of a user who has no settings: no test reads or writes those of whoever runs the tests."""
atexit.register(shutil.rmtree, NOBODY, ignore_errors=True)


TESTS_JOURNAL = "TESTS_JOURNAL"
"""The variable that names the journal of the command lines of a test that brings no home of its own."""


def environment(**more: str) -> dict[str, str]:
    """The environment without credentials, servers, languages or home of whoever runs the tests."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANTHROPIC_", "BRIDA_", "COLUMNS", "LC_", "LANG", "XDG_"))
    }
    kept["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    kept["HOME"] = NOBODY
    if "HOME" not in more and TESTS_JOURNAL in kept:
        kept["BRIDA_JOURNAL"] = kept[TESTS_JOURNAL]
    return {**kept, "LC_ALL": "C.UTF-8", "TERM": "dumb", **more}


@dataclass(frozen=True)
class Ran:
    """How a process ended."""

    code: int
    out: str
    err: str

    @property
    def object(self) -> dict:
        """The one JSON object on stdout."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


def brida(
    *arguments: str, cwd: Path, stdin=subprocess.DEVNULL, env: Mapping[str, str] | None = None, **more
) -> Ran:
    """Runs the command line to its end."""
    done = subprocess.run(
        [*BRIDA, *arguments],
        cwd=cwd,
        stdin=stdin,
        env=environment(**(env or {})),
        capture_output=True,
        timeout=50,
        check=False,
        **more,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def command(*arguments: str) -> Sequence[str]:
    """The command line as a list, for a pseudo-terminal."""
    return [*BRIDA, *arguments]


def run_at(*arguments: str, cwd: Path, home: Path, **more: str) -> Ran:
    """Runs a command with a home directory of its own, and time for a busy machine."""
    env = environment(HOME=str(home), **more)
    done = subprocess.run(
        arguments, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=580, check=False
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
