"""Writes docs/transitions.md from the transition table, or checks that it is what the table says.

python scripts/transitions.py          # writes
python scripts/transitions.py --check  # exit code 1 where the page is stale

Nothing of the page but its prose is kept here: the table gives its lines and the arrows of the diagram,
the loop itself is asked where each action leads, and a run is walked to learn the rest.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from brida.core.decisions import Env
from brida.core.events import (
    CallFinished,
    Event,
    Fault,
    Lost,
    Received,
    Reply,
    Resumed,
    Said,
    Started,
    Waited,
)
from brida.core.limits import Limits
from brida.core.policy import Policy
from brida.core.run import Done, Execute, Send, Step, Wait, next_step
from brida.core.state import State
from brida.core.stops import STOP_CLASSES, Stop
from brida.core.transitions import ANY, TABLE, UNKNOWN, Action, Row
from brida.core.turn import Phase
from brida.core.valves import GATE_NAMES, GateName, Gates, Valve
from brida.models.scripted import reply, tool_use
from brida.tools.declare import tool

PAGE = Path(__file__).parent.parent / "docs" / "transitions.md"

INTRODUCTION = """\
# Every transition of the loop

This page is written by `scripts/transitions.py` from the table in `src/brida/core/transitions.py`.

A reply says why it stopped, and holds blocks of one kind, the first that matches: *bad calls* (a client
`tool_use` whose id is ill-formed, repeated or used before, or that lacks a name or an input), *calls*
(client `tool_use`), *text* (a text block that is not blank), *other* (blocks, but neither text nor calls),
*empty*. The stop reason and the kind decide together; what no line names is unknown, and stops the run.

"""

HEADER = """\
| stop reason | blocks | kept | what happens | ends as |
|---|---|---|---|---|
"""

DIAGRAM = """
## The same as a diagram

Rounded boxes are where the loop stands, square ones what it does with a reply, and the large one holds the
ways to end. An arrow out of the diamond names the stop reasons and, after the colon, the kinds of blocks; a
heavy one means that the reply is kept in the history. Other arrows name the event that moves the loop, or
the gate that may end it. A closing reply, where one is asked for, is the last request: it ends the run
whatever it says, as the limit that asked for it.

"""

GATE: Final = "what a gate says"
ANYTHING_ELSE: Final = "anything else, null included"

LIMITS: Final = Limits()

Answer: TypeAlias = Literal["tool", "text"] | None
Move: TypeAlias = tuple[Phase, str, Phase | str]
"""From one phase, by an event, to another phase or to the way to end of this name."""


# -- the table


def line(row: Row) -> str:
    """One line of the table."""
    reasons = ", ".join(f"`{reason}`" for reason in row.stop_reasons) or ANYTHING_ELSE
    stop = f"`{row.stop}`" if row.stop else GATE
    return f"| {reasons} | {kinds(row)} | {'yes' if row.keep else 'no'} | {row.action.value} | {stop} |\n"


def kinds(row: Row) -> str:
    """The kinds of blocks of a row, in words."""
    return "any" if row.kinds == ANY else ", ".join(row.kinds)


# -- what the loop itself says


def goes_on_to(row: Row, answer: Answer = None) -> list[Phase]:
    """The phases that a reply of this row leads to while the run goes on; none where it always ends it."""
    state, found = a_state(answer), list[Phase]()
    for state.malformed in (1, 2):  # the second time round, every count of an action is used up
        phase, stop = state._dispatch(row, Reply((), None))
        if stop is None and phase not in found:
            found.append(phase)
    return found


def a_state(answer: Answer = None) -> State:
    """A run that has just begun, its replies one doubling away from their ceiling."""
    return State(Started(0.0, "", "", max_tokens=1, max_tokens_ceiling=2, answer=answer))


@tool(impact="read")
def look() -> str:
    """Stands for every tool."""
    return ""


def walk(
    attempts: Sequence[Reply | Fault], *, answer: Answer = None, wrong: str = "", limits: Limits = LIMITS
) -> tuple[list[Move], list[tuple[GateName, Phase]]]:
    """One run whose attempts bring these, and then its resuming: how it moved, which gate it met where.

    ``wrong``: what is wrong with every answer, where a structured one is asked for.
    """
    asked: dict[tuple[GateName, Phase], None] = {}

    def noting(gate: GateName) -> Valve:
        def note(state: State) -> Stop | None:
            asked[gate, state.phase] = None
            return None

        return note

    gates = {name: (noting(name), *getattr(Gates.of(limits), name)) for name in gate_names()}
    env = Env(limits, {look.name: look}, Policy({look.name: "allow"}), Gates(**gates))
    env = replace(env, check_answer=lambda _text, _say: (wrong,) if wrong else ())
    state, left, moves = a_state(answer), iter(attempts), list[Move]()

    def learn(event: Event) -> None:
        before = state.phase
        state.apply(event)
        if state.phase is not before:
            moves.append((before, type(event).__name__, state.phase))

    learn(Said(0.0, "go"))
    while not isinstance(step := next_step(state, env), Done):
        for event in (*step.events, *came_of(step, left)):
            learn(event)
    before, event_name, after = moves[-1]
    if after is Phase.OVER:
        moves[-1] = (before, event_name, step.stop.kind)
    elif not isinstance(attempts[-1], Reply):
        moves.append((before, event_name, step.stop.kind))
    for event in step.events:
        state.apply(event)
    learn(Resumed(0.0, afresh=False))
    return moves, [*asked]


def gate_names() -> Iterable[GateName]:
    """The gates, in the order in which the loop comes by them."""
    names: tuple[GateName, ...] = ("request", "turn", "between")
    assert names == GATE_NAMES
    return names


def came_of(step: Step, attempts: Iterator[Reply | Fault]) -> Iterator[Event]:
    """What a driver would learn by carrying out a step."""
    match step:
        case Send():
            brought = next(attempts)
            yield Received(0.0, brought) if isinstance(brought, Reply) else Lost(0.0, brought)
        case Wait():
            yield Waited(0.0, step.seconds)
        case Execute():
            yield from (CallFinished(0.0, call.asked.id, "ok", "") for call in step.calls)


# -- the diagram


def diagram(rows: Sequence[Row]) -> str:
    """The table and the loop around it, as a flowchart in Mermaid's language."""
    calls, so = reply(tool_use("1", look.name)), reply("so")
    moves, gates = walk([Fault("", "", again=True), calls, so])
    for further in (
        walk([Fault("", "")]),
        walk([so], answer="text"),
        walk([so, so], answer="text", wrong="all of it"),
        walk([calls, so], limits=Limits(max_turns=0, closing_reply=1)),
    ):
        moves += further[0]
    arrows = [*dict.fromkeys([*loop_arrows(moves), *reply_arrows(rows), *gate_arrows(gates)])]
    named = {word for arrow in arrows for word in arrow.split()}
    nodes = [f'{one.name}(["{one.value}"])' for one in Phase if one.name in named - {Phase.OVER.name}]
    nodes += ['reply{"what the reply says"}']
    nodes += [f'{one.name}["{one.value}"]' for one in Action if one.name in named]
    ends = [f'{stop(kind)}["{kind}"]' for kind in STOP_CLASSES if stop(kind) in named]
    box = [
        f'subgraph OVER["{Phase.OVER.value}"]',
        *(f"    {one}" for one in ends),
        f'    gate["{GATE}"]',
        "end",
    ]
    body = "".join(f"    {one}\n" for one in (*nodes, *box, *arrows))
    return f"```mermaid\nflowchart TD\n{body}```\n"


def loop_arrows(moves: Iterable[Move]) -> Iterator[str]:
    """How the loop moves by itself; where a reply leads is the table's to say."""
    yield f"{Phase.IN_FLIGHT.name} -->|{Received.__name__}| reply"
    for before, event, after in moves:
        if event != Received.__name__:
            yield f"{before.name} -->|{event}| {after.name if isinstance(after, Phase) else stop(after)}"


def reply_arrows(rows: Sequence[Row]) -> Iterator[str]:
    """From a reply to what is done with it, one arrow for each place and way to keep; from there onwards."""
    labels: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        target = row.action.name if goes_on_to(row) else stop(row.stop)
        reasons = ", ".join(row.stop_reasons) or ANYTHING_ELSE
        labels.setdefault((target, "==>" if row.keep else "-->"), []).append(f"{reasons}: {kinds(row)}")
    for (target, arrow), words in labels.items():
        yield f'reply {arrow}|"{"<br>".join(words)}"| {target}'
    for row in rows:
        checked = [phase for phase in goes_on_to(row, "text") if phase not in goes_on_to(row)]
        label = f"{', '.join(row.stop_reasons)}: {kinds(row)}, where a structured answer is asked for"
        yield from (f'reply {"==>" if row.keep else "-->"}|"{label}"| {phase.name}' for phase in checked)
        phases = goes_on_to(row)
        yield from (f"{row.action.name} --> {phase.name}" for phase in phases)
        if phases and row.stop:
            yield f'{row.action.name} -->|"no more of it"| {stop(row.stop)}'


def gate_arrows(gates: Iterable[tuple[GateName, Phase]]) -> Iterator[str]:
    """Every gate may end the run."""
    yield from (f'{phase.name} -->|"gate: {gate}"| gate' for gate, phase in gates)


def stop(kind: str) -> str:
    """The name of a way to end among the nodes: no other node has it, nor any word of Mermaid."""
    return f"stop_{kind}"


# -- the page


def page(table: Sequence[Row] = TABLE, unknown: Row = UNKNOWN) -> str:
    """The whole page."""
    rows = (*table, unknown)
    return INTRODUCTION + HEADER + "".join(line(row) for row in rows) + DIAGRAM + diagram(rows)


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
