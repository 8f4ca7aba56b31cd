"""``python -m evaluation``, or ``make eval-embedded``: prints the table.

The exit code is 0 whatever it says.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from brida import ConfigurationError
from evaluation import measure, report
from evaluation.tasks import LANGUAGES, Task, load_tasks


def main() -> None:
    """Measures and prints; exit code 2 where it was used wrongly or there is no embedded model."""
    tasks = {task.id: task for task in load_tasks()}
    parser = argparse.ArgumentParser(
        prog="python -m evaluation", description="How often the embedded model asks for the right calls."
    )
    parser.add_argument(
        "--language", action="append", choices=LANGUAGES, help="only this one; may be repeated"
    )
    parser.add_argument(
        "--tools",
        choices=("few", "all"),
        default="all",
        help=f"all {len(measure.READING)}, or {measure.FEW} a task",
    )
    parser.add_argument(
        "--task", action="append", choices=tasks, metavar="ID", help="only this one; may be repeated"
    )
    parser.add_argument("--each", action="store_true", help="a line for every run as well")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    options = parser.parse_args()
    chosen = [tasks[name] for name in options.task or tasks]
    try:
        runs = _runs(chosen, options.language or LANGUAGES, options.tools)
    except ConfigurationError as error:
        parser.error(str(error))
    if options.json:
        print(json.dumps(report.as_json(runs, options.tools), ensure_ascii=False))
        return
    if options.each:
        print("\n".join([*report.each(runs), ""]))
    print("\n".join(report.table(runs)))


def _runs(tasks: Sequence[Task], languages: Sequence[str], tools: measure.Choice) -> list[measure.Run]:
    runs = []
    for run in measure.measure(tasks, languages, tools):
        runs.append(run)
        if sys.stderr.isatty():
            print(
                f"\r\033[K{len(runs)} of {len(tasks) * len(languages)}", end="", file=sys.stderr, flush=True
            )
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return runs


if __name__ == "__main__":
    main()
