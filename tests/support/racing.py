"""A process that works on one run: ``python -m support.racing DIRECTORY WHAT``.

``begin`` starts a run whose high-impact tool waits until the file ``go`` is there; ``take-over`` resumes it
in spite of its owner; ``messages N`` goes on with the last run N times, each with one effect, and waits
while another process holds it.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from brida import Agent, Limits, current_call, tool
from brida.core.events import Reply
from brida.core.request import Request
from brida.errors import RunBusy
from brida.journal.sqlite import SqliteJournal


class Model:
    """Answers each text of a person with one call, and its result with an end."""

    name, base_url, max_output_tokens = "scripted", None, None

    async def complete(self, request: Request, on_delta: Any) -> Reply:
        messages: Any = request.as_dict()["messages"]
        last = messages[-1]["content"][0]
        usage = {"input_tokens": 1, "output_tokens": 1}
        if last["type"] == "tool_result":
            return Reply(({"type": "text", "text": "done"},), "end_turn", usage)
        call = {"type": "tool_use", "id": f"c{len(messages)}", "name": "act", "input": {"n": len(messages)}}
        return Reply((call,), "tool_use", usage)

    async def close(self) -> None:
        """There is nothing to free."""


def make(directory: Path, *, waits: bool) -> Agent:
    @tool
    def act(n: int) -> str:
        with (directory / "effects").open("a") as file:
            file.write(f"{current_call().idempotency_key} {os.getpid()}\n")
        (directory / "acting").touch()
        while waits and not (directory / "go").exists():
            time.sleep(0.01)
        return f"acted {n}"

    limits = Limits(max_tokens_total=None)
    journal = SqliteJournal(directory / "journal.db")
    return Agent(model=Model(), tools=[act], yes_to=["act"], journal=journal, limits=limits, language="en")


def messages(agent: Agent, count: int) -> dict[str, int]:
    done = busy = 0
    while done < count:
        try:
            assert agent.resume_sync("-", f"message {done}").completed
            done += 1
        except RunBusy:
            busy += 1
            time.sleep(0.002)
    return {"done": done, "busy": busy}


def main() -> None:
    directory, what = Path(sys.argv[1]), sys.argv[2]
    agent = make(directory, waits=what == "begin")
    if what == "messages":
        print(json.dumps(messages(agent, int(sys.argv[3]))))
        return
    outcome = agent.run_sync("go") if what in ("begin", "run") else agent.resume_sync("-", take_over=True)
    print(json.dumps({"stop": outcome.stop.kind, "detail": dict(outcome.stop.detail), "text": outcome.text}))


if __name__ == "__main__":
    main()
