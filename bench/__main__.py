"""``python -m bench``, or ``make bench``: prints the table. The exit code is 0 whatever it says."""

import argparse
import os
import platform
import sys
import time

from bench import measure, report


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="What brida costs.")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="one round of each, under half a minute")
    size.add_argument("--smoke", action="store_true", help="as little as possible: only to see that it runs")
    options = parser.parse_args()
    plan = measure.SMOKE if options.smoke else measure.QUICK if options.quick else measure.FULL
    began = time.monotonic()
    figures = measure.measure(plan, _tell)
    _tell("")
    for line in report.table(plan, figures):
        print(line)
    print()
    for bound in report.bounds(plan, figures):
        print(bound)
    seconds = time.monotonic() - began
    print(
        f"\nPython {platform.python_version()}, {os.cpu_count()} cores, {seconds:.0f} s; medians of one run"
    )


def _tell(what: str) -> None:
    """Says on a terminal what is measured now."""
    if sys.stderr.isatty():
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
