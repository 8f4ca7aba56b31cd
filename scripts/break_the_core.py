"""Breaks the core in many small ways, one at a time, and says which of them the tests of the core find.

python scripts/break_the_core.py               # all
python scripts/break_the_core.py turn waiting  # those whose name holds one of these words

Each break is a replacement of text that must fit exactly once. It is made in a copy of `src` in a temporary
directory; the tests of the core run against that copy, with a shorter enumeration. A break that no test
finds and that is not listed as harmless gives exit code 1.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = Path("src", "brida", "core")
ENUMERATION_LENGTH = "4"
PROCESSES = 2
SECONDS = 240
"""After so long the core that was broken goes on for ever, which counts as found."""


@dataclass(frozen=True, slots=True)
class Break:
    """One way to break the core. ``harmless``: why no test can find it."""

    name: str
    file: str
    old: str
    new: str
    harmless: str = ""


BREAKS = (
    # --- valves
    Break("one turn too many", "valves.py", "if state.turns < self.limit", "if state.turns <= self.limit"),
    Break("one request too many", "valves.py", "state.requests < self.limit", "state.requests <= self.limit"),
    Break("attempts are requests", "valves.py", "if state.attempts or state", "if state"),
    Break("one pause too few", "valves.py", "if state.pauses <= self.limit", "if state.pauses < self.limit"),
    Break("the budget may be used up", "valves.py", "if used < self.limit", "if used <= self.limit"),
    Break("one call too few", "valves.py", "if wanted <= self.limit", "if wanted < self.limit"),
    Break("a turn's calls are not counted before it", "valves.py", " + len(state.calls)\n", "\n"),
    Break(
        "the deadline is late", "valves.py", "if state.elapsed < self.limit", "if state.elapsed <= self.limit"
    ),
    Break("polling is walking in place", "valves.py", "not (polls and", "not (False and"),
    Break("one round is a cycle", "valves.py", " and past[-2 * period : -period] == cycle", ""),
    Break("cycles of four are not seen", "valves.py", "LONGEST_CYCLE: Final = 4", "LONGEST_CYCLE: Final = 3"),
    Break("the turn gate forgets the request gate", "valves.py", "*before_request, *progress", "*progress"),
    Break(
        "a wait of more than two minutes", "valves.py", "MAX_WAIT: Final = 120.0", "MAX_WAIT: Final = 121.0"
    ),
    Break("nobody is heard between calls", "valves.py", "between=(*always, *between)", "between=(*between,)"),
    Break(
        "a valve that raises lets the run pass",
        "valves.py",
        "except Exception as error:\n            return",
        "except Exception as error:\n            continue\n            return",
    ),
    Break("requests are off by default", "valves.py", "4 * self.max_turns + 14", "4 * self.max_turns + 15"),
    # --- transitions
    Break("a truncated reply is kept", "transitions.py", "ANY, Action.GROW, False", "ANY, Action.GROW, True"),
    Break(
        "a truncated call runs", "transitions.py", "ANY, Action.GROW, False", "ANY, Action.RUN_CALLS, True"
    ),
    Break(
        "a refusal is kept",
        "transitions.py",
        '("refusal",), ANY, Action.END, False',
        '("refusal",), ANY, Action.END, True',
    ),
    Break(
        "calls of an end run",
        "transitions.py",
        '("end_turn", "stop_sequence"), ("calls",), Action.END',
        '("end_turn", "stop_sequence"), ("calls",), Action.RUN_CALLS',
    ),
    Break(
        "the unknown is a success", "transitions.py", 'False, "unknown_stop_reason")', 'False, "completed")'
    ),
    Break("two calls may have one id", "transitions.py", "len({call.id for call in calls})", "len(calls)"),
    Break("an id may come again", "transitions.py", " or call_id in used_ids", ""),
    Break("an id may hold anything after its start", "transitions.py", "_ID.fullmatch", "_ID.match"),
    Break("an input may be anything", "transitions.py", " or not isinstance(arguments, dict)", ""),
    Break(
        "a blank is a text",
        "transitions.py",
        "kept = [block for block in content if not is_blank_text(block)]",
        "kept = list(content)",
    ),
    Break(
        "no stop reason is looked up as such",
        "transitions.py",
        '(stop_reason or "", kind)',
        "(stop_reason, kind)",
        harmless="no line of the table has either key",
    ),
    # --- state
    Break("malformed replies for ever", "state.py", "if self.malformed == 1", "if self.malformed >= 1"),
    Break(
        "malformed replies of a whole run",
        "state.py",
        "Action.REPEAT else 0",
        "Action.REPEAT else self.malformed",
    ),
    Break(
        "max_tokens grows at its ceiling",
        "state.py",
        "self.max_tokens < self.started",
        "self.max_tokens <= self.started",
    ),
    Break(
        "max_tokens has no ceiling",
        "state.py",
        "min(self.max_tokens * 2, self.started.max_tokens_ceiling)",
        "self.max_tokens * 2",
    ),
    Break("pauses are not counted", "state.py", "self.pauses += 1", "self.pauses += 0"),
    Break(
        "waits are not forgotten",
        "state.py",
        "self.fault = 0, 0.0, None",
        "self.fault = 0, self.waited, None",
    ),
    Break(
        "a lost attempt costs nothing", "state.py", "self.usage += read_partial_usage(", "read_partial_usage("
    ),
    Break("each attempt is a request", "state.py", "if not self.attempts:", "if True:"),
    Break("an answer may be for anything", "state.py", "call.runs.digest != digest:", "False:"),
    Break(
        "a no is a yes for the session", "state.py", "if event.session and event.allow", "if event.session"
    ),
    Break("a failure is no error", "state.py", 'is_error=event.outcome != "ok"', "is_error=False"),
    Break("a no is no error", "state.py", "event.text, is_error=True", "event.text, is_error=False"),
    Break("waiting for a person takes time", "state.py", "if not self._waits_for_person", "if True"),
    Break("paused parts are lost", "state.py", "self.text = self.paused_text + text", "self.text = text"),
    Break("a text changes nothing about progress", "state.py", "        self.past = ()\n", ""),
    Break("results of clocks count", "state.py", '"" if declared and declared.volatile else heard', "heard"),
    Break("too little past", "state.py", "PAST_TURNS: Final = 8", "PAST_TURNS: Final = 7"),
    Break(
        "the order of calls counts",
        "state.py",
        "return tuple(sorted((call.asked.tool",
        "return tuple(((call.asked.tool",
    ),
    Break("a waiting text is never heard", "state.py", " and self.history.has_text_to_send", " and False"),
    Break("a started call has not run", "state.py", " and not call.started\n", "\n"),
    Break("calls of a lost reply linger", "state.py", " if row.keep else {}", ""),
    Break(
        "any call may start",
        "state.py",
        "if self.waiting or not self._call(event.call_id).allowed",
        "if False",
    ),
    Break(
        "events may come in any order",
        "state.py",
        "or self.phase is not _PHASES.get(kind, self.phase)",
        "or False",
    ),
    Break("a call is decided twice", "state.py", "if self._call(event.call_id).decision or", "if"),
    Break(
        "the past grows without end", "state.py", "(*self.past[1 - PAST_TURNS :], turn)", "(*self.past, turn)"
    ),
    Break(
        "a used-up run is completed",
        "state.py",
        'if row.stop == "completed" and self.history',
        "if self.history",
    ),
    # --- history
    Break(
        "results in the wrong order",
        "history.py",
        "list(self._calls.values())",
        "list(self._calls.values())[::-1]",
    ),
    Break("texts before results", "history.py", "(*results, *self._texts)", "(*self._texts, *results)"),
    Break(
        "blank texts are sent", "history.py", "[b for b in content if not is_blank_text(b)]", "list(content)"
    ),
    Break("ids are forgotten", "history.py", "self.used_ids.update(self._calls)", "self.used_ids.update(())"),
    Break(
        "a copy shares what was sent",
        "history.py",
        "other._sealed = self._sealed.copy()",
        "other._sealed = self._sealed",
    ),
    Break(
        "a copy shares the results",
        "history.py",
        "other._calls = self._calls.copy()",
        "other._calls = self._calls",
    ),
    Break(
        "pauses at the end stay",
        "history.py",
        "end = len(self._sealed) if self._paused_from is None else self._paused_from",
        "end = len(self._sealed)",
    ),
    Break("texts do not wait for results", "history.py", "not self._results_only and", ""),
    Break(
        "texts follow a pause",
        "history.py",
        "not self._results_only and self._paused_from is None",
        "not self._results_only",
    ),
    Break(
        "the digest leaves a byte out",
        "history.py",
        "running.update(self._piece(self._open_message()))",
        "running.update(self._open_message())",
    ),
    Break(
        "server tools hold no text",
        "history.py",
        "(bool(self._server_tools) or _from_code(content))",
        "_from_code(content)",
    ),
    Break(
        "a call has two results",
        "history.py",
        'if self._calls.get(call_id, b"") is not None:',
        "if call_id not in self._calls:",
    ),
    # --- run
    Break(
        "what cannot be mended is tried again",
        "run.py",
        "if not fault.again or state.attempts",
        "if state.attempts",
    ),
    Break("one attempt too many", "run.py", "state.attempts >= env.limits", "state.attempts > env.limits"),
    Break(
        "the first wait is longer",
        "run.py",
        "min(state.attempts - 1, MOST_DOUBLINGS)",
        "min(state.attempts, MOST_DOUBLINGS)",
    ),
    Break("no gate before another attempt", "run.py", "if fault.again and (stop", "if False and (stop"),
    Break("calls run while others wait", "run.py", "    if waiting:\n", "    if False:\n"),
    Break("a question is put twice", "run.py", " if call.question is None)", ")"),
    Break("writes run beside reads", "run.py", "if group and not reads", "if False"),
    Break(
        "what can be repeated runs together",
        "run.py",
        'declared.impact == "read"',
        'declared.impact != "high"',
    ),
    Break("a raised tier is ignored", "decisions.py", "raised is None and call.answer", "call.answer"),
    Break(
        "an answer is forgotten", "decisions.py", "and call.answer is None and not changed", "and not changed"
    ),
    Break(
        "a session answer covers raised calls",
        "decisions.py",
        "state.session_allows and not raised",
        "state.session_allows",
    ),
    Break("a default of deny asks", "decisions.py", '    if tier == "deny":\n', "    if False:\n"),
    Break(
        "a tool that is not there cannot be denied",
        "decisions.py",
        "if rule := env.policy.denies(asked.tool)",
        "if asked.tool in env.tools and (rule := env.policy.denies(asked.tool))",
    ),
    Break("any arguments will do", "decisions.py", "if problems and (not changed", "if problems and (False"),
    Break("nobody there is asked", "decisions.py", 'if env.on_ask == "decline"', "if False"),
    Break("a yes in advance is not heard", "decisions.py", "if tool in env.yes_to", "if False"),
    Break("a started call did not run", "run.py", "if call is not None and call.started", "if False"),
    Break(
        "who is asked can change what runs",
        "decisions.py",
        "json.loads(encode(arguments))",
        "arguments",
    ),
    Break(
        "the deadline of a step is the whole one",
        "run.py",
        "env.limits.deadline - state.elapsed",
        "env.limits.deadline",
    ),
    Break(
        "time left below zero",
        "run.py",
        "max(0.0, env.limits.deadline - state.elapsed)",
        "env.limits.deadline - state.elapsed",
        harmless="the gate before each of these steps stops a run whose deadline has passed",
    ),
    # --- policy
    Break("allow beats deny", "policy.py", '("deny", "ask", "allow")', '("allow", "ask", "deny")'),
    Break("a wildcard allows all", "policy.py", 'and not self.pattern.strip("*?")', "and False"),
    Break("what can be repeated is allowed", "policy.py", 'if impact == "read"', 'if impact != "high"'),
    Break(
        "deny by name looks at the default",
        "policy.py",
        'self.decide(tool, impact="read")',
        "self.decide(tool)",
    ),
    # --- usage, encoding, events, stops
    Break(
        "no counter is no cost",
        "usage.py",
        "len(encode(reply)) if tokens_out is None else tokens_out",
        "tokens_out or 0",
    ),
    Break(
        "negative counters",
        "usage.py",
        "if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST",
        "if isinstance(value, int) and value <= MOST",
    ),
    Break("a guess is complete", "usage.py", "self.complete and other.complete", "self.complete"),
    Break("the cache is free", "usage.py", "Meter(1, 1, 1, 1)", "Meter(1, 1, 1, 0)"),
    Break("the order of keys counts", "encoding.py", "sort_keys=True", "sort_keys=False"),
    Break("one digest for all tools", "encoding.py", "{tool}\\n{canonical", "{canonical"),
    Break("newer records are read", "events.py", '.get("version") != VERSION', '.get("version") is None'),
    Break(
        "unknown fields are dropped",
        "events.py",
        "unknown = values.keys() - hints.keys()",
        "unknown = set[str]()",
    ),
    Break("a refusal exits as a failure", "stops.py", '"refused": (4,', '"refused": (5,'),
    # --- edited arguments
    Break(
        "an edit does not change what runs",
        "state.py",
        "return self.edited or self.asked",
        "return self.asked",
    ),
    Break(
        "an edit is not shown again",
        "state.py",
        "edits=call.edits + 1, question=None",
        "edits=call.edits + 1",
    ),
    Break("edits are not counted", "state.py", "edits=call.edits + 1", "edits=call.edits"),
    Break("an edit that is allowed is not shown", "decisions.py", " and not changed:", ":"),
    Break(
        "an edit that does not fit may run",
        "decisions.py",
        "or (call.answer is not None and call.answer.allow)",
        "or False",
    ),
    Break("a yes in advance covers an edit", "decisions.py", "env.yes_to and not call.edits", "env.yes_to"),
    Break("a session answer covers an edit", "decisions.py", "not raised and not call.edits", "not raised"),
    Break(
        "what the model asked for is forgotten",
        "decisions.py",
        "_copy(call.asked.arguments) if changed",
        "_copy(asked.arguments) if changed",
    ),
    # --- the closing reply
    Break("a closing reply after any stop", "run.py", " and stop.kind in CLOSING_STOPS", ""),
    Break(
        "a closing reply without end",
        "run.py",
        "size is None or state.closing_requests or",
        "size is None or",
    ),
    Break("two closing replies", "run.py", " and state.closing is None\n", "\n"),
    Break("a closing reply past the requests", "run.py", " and state.requests < env.limits.requests", ""),
    Break("a closing reply that cannot be asked for", "run.py", "state.history.takes_text and", ""),
    Break(
        "a closing reply past the deadline",
        "run.py",
        "state.closing_requests or ask(env.gates.between, state)",
        "state.closing_requests",
    ),
    Break(
        "a closing reply is a request",
        "state.py",
        "            self.closing_requests += 1\n",
        "            self.closing_requests += 1\n            self.requests += 1\n",
    ),
    Break(
        "a closing reply with calls is kept",
        "state.py",
        'if row.keep and kind == "text" and',
        "if row.keep and",
    ),
    Break("a cut closing reply is kept", "state.py", " and row.action is Action.END:", ":"),
    Break("a closing reply is never kept", "state.py", 'if row.keep and kind == "text"', "if False"),
    Break("nothing is held back", "valves.py", "self.limit - self.held_back", "self.limit"),
    Break(
        "a closing reply may call",
        "request.py",
        '{"tool_choice": {"type": "none"}} if started.tools else {}',
        "{}",
    ),
    Break("a choice of no tools", "request.py", "if started.tools else {}", "if True else {}"),
    # --- structured answers
    Break("any end completes", "state.py", 'if row.stop == "completed" and self.started.answer', "if False"),
    Break(
        "an answer does not end the run",
        "state.py",
        "        if self.answer is not None:\n",
        "        if False:\n",
    ),
    Break("a tool of that name ends any run", "state.py", 'self.started.answer == "tool" and call', "call"),
    Break("the last answer counts", "state.py", "self.answer or call.runs.arguments", "call.runs.arguments"),
    Break(
        "a wrong answer is asked for again and again",
        "state.py",
        "self.wrong_answers == 1",
        "self.wrong_answers",
    ),
    Break(
        "a wrong answer is not heard of",
        "state.py",
        "            self.history.add_text(event.text)\n            self.phase",
        "            self.phase",
    ),
    # --- going on
    Break("a paused turn stays", "state.py", "            self.history.leave_out_pause()\n", ""),
    Break("the budget begins again", "state.py", "        if event.new_budget:", "        if True:"),
    Break("the budget never begins again", "state.py", "        if event.new_budget:", "        if False:"),
    Break("the turns go on", "state.py", "        if event.afresh:", "        if False:"),
    Break("the turns begin again without a text", "state.py", "        if event.afresh:", "        if True:"),
    Break(
        "a run goes on that has not stopped", "state.py", "(kind is Resumed and self.stop is None) or ", ""
    ),
    Break(
        "a pause that is left out is in the digest",
        "history.py",
        "        self._hash = hashlib.sha256(self._sealed)\n",
        "",
    ),
    Break(
        "what waited for results does not wait",
        "history.py",
        "= None, self._before_pause",
        "= None, (False, frozenset())",
    ),
)


def snapshot(place: Path) -> None:
    """Copies what is needed, so that an editor at work meanwhile changes nothing."""
    ignore = shutil.ignore_patterns("__pycache__", "test_break_the_core.py")
    shutil.copytree(ROOT / "src", place / "src", ignore=ignore)
    shutil.copytree(ROOT / "tests" / "core", place / "tests" / "core", ignore=ignore)
    shutil.copytree(ROOT / "tests" / "support", place / "tests" / "support", ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", place)


def break_copy(copy: Path, change: Break) -> None:
    """Breaks the core in ``copy``. Raises ``ValueError`` where the text does not fit exactly once."""
    file = copy / CORE / change.file
    text = file.read_text(encoding="utf-8")
    if text.count(change.old) != 1:
        raise ValueError(
            f"{change.name}: found {text.count(change.old)} times in {change.file}: {change.old!r}"
        )
    file.write_text(text.replace(change.old, change.new), encoding="utf-8")


def finder(whole: Path, change: Break | None) -> str | None:
    """The first test that fails on the broken core; None where all pass."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place, "copy")
        shutil.copytree(whole, copy)
        if change is not None:
            break_copy(copy, change)
        own = f"test_{change.file}" if change else ""
        tests = sorted(copy.glob("tests/core/test_*.py"), key=lambda file: (file.name != own, rank(file)))
        world = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(copy / "src"), str(copy / "tests"))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "BRIDA_ENUMERATION_LENGTH": ENUMERATION_LENGTH,
        }
        options = ("-x", "-q", "-m", "not long", "-p", "no:cacheprovider", "--hypothesis-profile=ci")
        try:
            ran = subprocess.run(
                [sys.executable, "-m", "pytest", *options, *map(str, tests)],
                cwd=copy,
                env=world,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "it goes on for ever"
        if ran.returncode == 0:
            return None
        first = re.search(r"^(?:FAILED|ERROR) \S*/(\S+)", ran.stdout, re.MULTILINE)
        return first[1] if first else f"exit code {ran.returncode}: {ran.stdout[-300:]}"


def main() -> int:
    """Breaks the core and reports."""
    chosen = [b for b in BREAKS if not sys.argv[1:] or any(word in b.name for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place, "whole")
        snapshot(whole)
        for change in BREAKS:
            with tempfile.TemporaryDirectory() as other:
                shutil.copytree(whole / CORE, Path(other, CORE))
                break_copy(Path(other), change)
        if by := finder(whole, None):
            print(f"the tests fail on the core as it is: {by}", file=sys.stderr)
            return 2
        return report(whole, chosen)


def rank(test: Path) -> tuple[int, str]:
    """Those that find much soon come first, those that take long last."""
    soon = ("test_loop.py", "test_field_cases.py", "test_state.py", "test_run.py", "test_history.py")
    late = ("test_encoding.py", "test_events.py", "test_enumeration.py", "test_properties.py")
    place = soon.index(test.name) - len(soon) if test.name in soon else 0
    return late.index(test.name) + 1 if test.name in late else place, test.name


def report(whole: Path, chosen: Sequence[Break]) -> int:
    """Prints what was found of each break; 1 where one survives without a reason."""
    begun, unlisted, found = time.monotonic(), 0, 0
    with ThreadPoolExecutor(PROCESSES) as pool:
        for change, by in zip(chosen, pool.map(partial(finder, whole), chosen), strict=True):
            if by is not None:
                found += 1
                print(
                    f"found     {change.name}{' (listed as harmless)' if change.harmless else ''}: {by}",
                    flush=True,
                )
            else:
                unlisted += not change.harmless
                print(f"SURVIVED  {change.name}: {change.harmless or 'no test finds it'}", flush=True)
    seconds = time.monotonic() - begun
    print(f"{found} of {len(chosen)} found, {unlisted} survived without a reason, {seconds:.0f} s")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
