"""The agent of ``bare.py`` on brida: the same model, the same tools, and the reins in your hand.

python examples/loops/with_brida.py "Read the first line of README.md, then tell me what time it is"
"""

import os
import sys
from pathlib import Path

from brida import Agent, Answer, Limits, Policy, Question
from brida.tools.builtin import builtin_tools


def ask_at_the_keyboard(question: Question) -> Answer:
    """Shows what is about to run and waits for a yes."""
    said = input(f"run {question.tool}({question.arguments!r})? [y/N] ")
    return Answer(said.strip().lower() == "y", reason="not now")


def make_agent(model: str) -> Agent:
    builtin = builtin_tools(Path.cwd())
    return Agent(
        model=model,
        tools=[builtin[name] for name in ("get_time", "read_file", "write_file")],
        limits=Limits(max_turns=8, max_tokens_total=40_000, deadline=120),
        policy=Policy({"get_time": "allow", "read_file": "allow", "write_file": "ask"}),
        approve=ask_at_the_keyboard if sys.stdin.isatty() else None,
    )


if __name__ == "__main__":
    outcome = make_agent(os.environ.get("BRIDA_MODEL", "claude-sonnet-5")).run_sync(sys.argv[1])
    print(outcome.text)
    print(f"{outcome.stop.kind}: {outcome.turns} turns, {outcome.usage.total} tokens", file=sys.stderr)
    sys.exit(outcome.stop.exit_code)
