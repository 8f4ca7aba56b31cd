"""The page of the transitions: its diagram is drawn from the table, and says nothing else."""

import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from brida.core.transitions import TABLE, UNKNOWN, Action, Row

SCRIPT = Path(__file__).parent.parent / "scripts" / "transitions.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("transitions_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = load()


def arrows(page: str) -> list[str]:
    diagram = page.partition("```mermaid\n")[2].partition("```")[0]
    return [line.strip() for line in diagram.splitlines() if "-->" in line or "==>" in line]


ARROWS = arrows(script.page())


def ends(row: Row) -> str:
    return row.action.name if row.action is not Action.END else f"stop_{row.stop}"


@pytest.mark.parametrize("row", [*TABLE, UNKNOWN], ids=lambda row: f"{row.stop_reasons} {row.kinds}")
def test_every_line_of_the_table_is_in_one_arrow_out_of_the_reply(row):
    words = f"{', '.join(row.stop_reasons) or script.ANYTHING_ELSE}: {script.kinds(row)}"
    labelled = re.compile(r'reply (-->|==>)\|"(.*)"\| (\w+)')
    found = [m for one in ARROWS if (m := labelled.fullmatch(one)) and words in m[2].split("<br>")]
    assert [(m[1] == "==>", m[3]) for m in found] == [(row.keep, ends(row))]


@pytest.mark.parametrize(
    "change",
    [
        {"stop_reasons": ("brand_new",)},
        {"kinds": ("other",)},
        {"action": Action.GROW},
        {"keep": False},
        {"stop": "refused"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_change_in_a_line_of_the_table_changes_table_and_diagram(change):
    at = next(at for at, row in enumerate(TABLE) if row.stop == "completed")
    changed = (*TABLE[:at], replace(TABLE[at], **change), *TABLE[at + 1 :])
    page = script.page(changed)
    assert page != script.page()
    assert arrows(page) != ARROWS


def test_a_line_less_is_an_arrow_or_a_label_less():
    for at, row in enumerate(TABLE):
        assert arrows(script.page((*TABLE[:at], *TABLE[at + 1 :]))) != ARROWS, row


@pytest.mark.parametrize(
    "arrow",
    [
        "READY -->|Sent| IN_FLIGHT",
        "IN_FLIGHT -->|Received| reply",
        "IN_FLIGHT -->|Lost| READY",
        "IN_FLIGHT -->|Lost| stop_model_error",
        "RUN_CALLS --> TURN",
        "TURN -->|CallFinished| READY",
        'READY -->|"gate: request"| gate',
        'TURN -->|"gate: turn"| gate',
        'TURN -->|"gate: between"| gate',
        "REPEAT --> READY",
        'REPEAT -->|"no more of it"| stop_malformed_reply',
        "GROW --> READY",
        'GROW -->|"no more of it"| stop_truncated',
        "CHECK -->|Checked| READY",
        "CHECK -->|Checked| stop_completed",
        "CHECK -->|Checked| stop_malformed_reply",
        'reply ==>|"end_turn: text, where a structured answer is asked for"| CHECK',
        "TURN -->|Closing| READY",
        "OVER -->|Resumed| READY",
        "RESUME --> READY",
        'RESUME -->|"no more of it"| stop_max_pauses',
    ],
)
def test_the_loop_around_the_reply_is_as_it_runs(arrow):
    assert arrow in ARROWS


def test_every_node_has_its_arrow_and_every_arrow_its_nodes():
    diagram = script.page().partition("```mermaid\n")[2]
    declared = set(re.findall(r'^ +(?:subgraph )?(\w+)(?:\(\[|\{|\[)"', diagram, re.MULTILINE))
    used = {name for one in ARROWS for name in (one.split()[0], one.split()[-1])}
    assert declared == used


def test_the_diagram_can_be_read_at_a_glance():
    assert len(ARROWS) <= 40
