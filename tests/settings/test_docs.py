"""The page about settings says what the table says."""

import json
import re
import tomllib
from pathlib import Path

from brida.settings.schema import checked
from brida.settings.table import SETTINGS, Setting
from brida.texts.catalogue import ENGLISH

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")

UNTRUSTED = {
    "free": "counts",
    "lower": "where it is lower",
    "true": "where it is true",
    "stricter": "where it is stricter",
    "always": "always counts",
    "never": "no",
}


def line(row: Setting) -> str:
    """The row of the page's table for a setting."""
    flag = f"`{row.flag}`" if row.flag else ""
    default = "" if row.default in (None, ()) else f"`{json.dumps(row.default)}`"
    if row.key == "limits.max_requests":
        default = "4 x `max_turns` + 14"
    holds = row.kind.words(ENGLISH)
    return f"| `{row.key}` | {holds} | {default} | {flag} | `{row.variable}` | {UNTRUSTED[row.untrusted]} |"


def test_the_table_of_the_page_is_the_table_of_the_code():
    rows = [found for found in PAGE.splitlines() if found.startswith("| `")]
    assert rows == [line(row) for row in SETTINGS]


def test_the_files_of_the_page_are_right():
    files = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert files
    for text in files:
        checked(tomllib.loads(text), "the page", ENGLISH)
