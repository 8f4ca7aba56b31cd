"""A valve of your own: python examples/valves/working_hours.py "Tidy up the mailing list"

A valve is a callable that looks at the state of the run and says stop, or nothing. This one lets a run go
on only while somebody is at work who could be called if something goes wrong.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path

from brida import Agent, Limits, State, Stop
from brida.tools.builtin import builtin_tools


def local_time() -> datetime:
    return datetime.now().astimezone()


@dataclass(frozen=True)
class WorkingHours:
    """Stops a run outside ``opens`` to ``closes``, Monday to Friday. ``now`` is the clock it looks at.

    It belongs to the request gate, which the loop also asks before each turn of calls: after hours no
    request leaves and no call starts. A call that is running then may end.
    """

    opens: time = time(8)
    closes: time = time(18)
    now: Callable[[], datetime] = local_time

    def __call__(self, state: State) -> Stop | None:
        now = self.now()
        if now.weekday() < 5 and self.opens <= now.time() < self.closes:
            return None
        hours = f"{self.opens:%H:%M} to {self.closes:%H:%M}, Monday to Friday"
        detail = {"reason": "outside working hours", "hours": hours, "at": f"{now:%a %H:%M}"}
        return Stop("stopped", {**detail, "turns": state.turns})


def make_agent(model: str, hours: WorkingHours) -> Agent:
    return Agent(
        model=model,
        tools=builtin_tools(Path.cwd()).values(),
        limits=Limits(max_turns=8, deadline=600),
        valves={"request": [hours]},
    )


if __name__ == "__main__":
    outcome = make_agent(os.environ.get("BRIDA_MODEL", "claude-sonnet-5"), WorkingHours()).run_sync(
        sys.argv[1]
    )
    print(outcome.text)
    print(f"{outcome.stop.kind} {dict(outcome.stop.detail)}", file=sys.stderr)
    sys.exit(outcome.stop.exit_code)
