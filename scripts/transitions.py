"""Writes docs/transitions.md from the transition table, or checks that it is what the table says.

python scripts/transitions.py          # writes
python scripts/transitions.py --check  # exit code 1 where the page is stale
"""

import sys
from pathlib import Path

from brida.core.transitions import ANY, TABLE, UNKNOWN, Row

PAGE = Path(__file__).parent.parent / "docs" / "transitions.md"

INTRODUCTION = """\
# Every transition of the loop

This page is written by `scripts/transitions.py` from the table in `src/brida/core/transitions.py`.

A reply says why it stopped, and holds blocks of one kind, the first that matches: *bad calls* (a client
`tool_use` whose id is ill-formed, repeated or used before, or that lacks a name or an input), *calls*
(client `tool_use`), *text* (a text block that is not blank), *other* (blocks, but neither text nor calls),
*empty*. The stop reason and the kind decide together; what no line names is unknown, and stops the run.

| stop reason | blocks | kept | what happens | ends as |
|---|---|---|---|---|
"""


def line(row: Row) -> str:
    """One line of the page."""
    reasons = ", ".join(f"`{reason}`" for reason in row.stop_reasons) or "anything else, null included"
    kinds = "any" if row.kinds == ANY else ", ".join(row.kinds)
    stop = f"`{row.stop}`" if row.stop else "what a gate says"
    return f"| {reasons} | {kinds} | {'yes' if row.keep else 'no'} | {row.action.value} | {stop} |\n"


def page() -> str:
    """The whole page."""
    return INTRODUCTION + "".join(line(row) for row in (*TABLE, UNKNOWN))


def main() -> int:
    """Writes the page, or with ``--check`` compares it."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    print(f"{PAGE.name} is not what the table says: run python scripts/transitions.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
