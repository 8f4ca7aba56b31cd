"""The evaluation of the embedded model: its tasks are well-formed, and its scores are right."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from brida import ScriptedModel
from brida.core.wording import english
from brida.models.scripted import reply, tool_use
from support.process import environment

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the evaluation lies beside the tests, not in the package
from evaluation import measure, report  # noqa: E402
from evaluation.scoring import Called, Score, score  # noqa: E402
from evaluation.tasks import LANGUAGES, Expected, Task, lay_out, load_project, load_tasks  # noqa: E402

sys.path.remove(str(ROOT))

TASKS = {task.id: task for task in load_tasks()}
TOOLS = measure.reading_tools(ROOT)
DEFAULTS = measure.defaults_of(TOOLS)
RIGHT, NOT_RIGHT = Score(True, True, True), Score(False, False, False)


# --- the tasks --------------------------------------------------------------------------------------------


def test_there_are_thirty_tasks_and_half_of_them_are_for_tuning():
    assert len(load_tasks()) == len(TASKS) == 30
    assert sum(task.tuning for task in TASKS.values()) == 15


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_task_is_asked_in_other_words_in_every_language(task):
    assert set(task.texts) == set(LANGUAGES)
    assert all(text.strip() == text != "" for text in task.texts.values())
    assert len(set(task.texts.values())) == 3


def test_every_tool_is_right_somewhere_in_either_half():
    for tuning in (True, False):
        used = {call.tool for task in TASKS.values() if task.tuning is tuning for call in task.calls}
        assert used == set(measure.READING)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_spelling_of_a_right_call_fits_the_schema_of_its_tool(task):
    for expected in task.calls:
        tool = TOOLS[expected.tool]
        properties: dict = json.loads(json.dumps(tool.input_schema))["properties"]
        assert {*expected.arguments, *expected.free} <= set(properties)
        first = {name: values[0] for name, values in expected.arguments.items()}
        for name, values in expected.arguments.items():
            for value in values:
                assert tool.problems({**first, name: value}, english) == ()
        assert tool.problems(first, english) == ()


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_path_of_a_right_call_is_in_the_sample_project(task, tmp_path):
    lay_out(tmp_path)
    for expected in task.calls:
        for path in expected.arguments.get("path", ()):
            assert (tmp_path / path).exists()


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_name_that_a_task_asks_about_is_said_in_every_language(task):
    for expected in task.calls:
        for name in ("path", "text"):
            for value in expected.arguments.get(name, ()):
                assert all(str(value) in text for text in task.texts.values())


def test_the_sample_project_is_laid_out_as_written(tmp_path):
    lay_out(tmp_path)
    for path, content in load_project().items():
        assert (tmp_path / path).read_text(encoding="utf-8") == content


# --- the scores -------------------------------------------------------------------------------------------


def read(path, **more):
    return Called("read_file", {"path": path, **more})


@pytest.mark.parametrize(
    "name,calls,expected",
    [
        ("time", [Called("get_time", {})], RIGHT),
        ("time", [], NOT_RIGHT),
        ("time", [read("README.md")], NOT_RIGHT),
        ("time", [Called("get_time", {}), read("README.md")], Score(True, True, False)),
        ("time", [Called("get_time", {}), Called("get_time", {})], RIGHT),
        ("time", [Called("get_time", {"zone": "UTC"})], Score(True, False, False)),
        ("read-readme", [read("README.md")], RIGHT),
        ("read-readme", [read("./README.md", offset=0, limit=2000)], RIGHT),
        ("read-readme", [read("readme")], Score(True, False, False)),
        ("read-readme", [read("README.md", offset=5)], Score(True, False, False)),
        ("read-readme", [Called("read_file", {})], Score(True, False, False)),
        ("list-docs", [Called("list_files", {"path": "docs/", "pattern": "**"})], RIGHT),
        ("list-docs", [Called("list_files", {"path": "docs", "pattern": "*.md"})], Score(True, False, False)),
        ("list-project", [Called("list_files", {})], RIGHT),
        ("read-two", [read("docs/usage.md"), read("docs/install.md")], RIGHT),
        ("read-two", [read("docs/usage.md")], NOT_RIGHT),
        ("read-two", [read("docs/usage.md"), read("docs/usage.md")], Score(True, False, False)),
        ("poem", [], RIGHT),
        ("poem", [Called("get_time", {})], NOT_RIGHT),
    ],
)
def test_the_calls_of_a_run_get_their_score(name, calls, expected):
    assert score(TASKS[name], calls, DEFAULTS) == expected


def test_a_free_argument_may_have_any_value():
    expected = Expected("read_file", {"path": ("a",)}, frozenset({"limit"}))
    task = Task("a", True, {}, (expected,))
    assert score(task, [read("a", limit=7)], DEFAULTS) == RIGHT
    assert score(task, [read("a", offset=7)], DEFAULTS).arguments is False


# --- the runs ---------------------------------------------------------------------------------------------


def scripted(*calls):
    """A model that asks for ``calls`` on every task, then ends."""

    def answer(body):
        if any(block["type"] == "tool_result" for block in body["messages"][-1]["content"]):
            return reply("done")
        return reply(*[tool_use(str(number), *call) for number, call in enumerate(calls)])

    return ScriptedModel(answer)


def runs_of(names, *calls, languages=("es", "pt"), choice="all"):
    model = scripted(*calls)
    runs = list(measure.measure([TASKS[name] for name in names], languages, choice, model))
    return runs, model


def test_a_run_is_one_of_a_real_agent_over_the_sample_project():
    (run,), model = runs_of(["read-notes"], ("read_file", {"path": "notes.txt"}), languages=["es"])
    assert (run.score, run.stop, run.turns, run.language) == (RIGHT, "completed", 1, "es")
    first, second = model.requests
    assert first["messages"][0]["content"][0]["text"] == TASKS["read-notes"].texts["es"]
    assert [tool["name"] for tool in first["tools"]] == list(measure.READING)
    assert "Call the printer" in json.dumps(second["messages"])


def test_calls_that_never_ran_count_as_well():
    ids = iter("abcd")
    model = ScriptedModel(lambda body: reply(tool_use(next(ids), "file_info", {"path": "x"})))
    (run,) = measure.measure([TASKS["size"]], ["en"], "all", model)
    assert (run.stop, run.turns, len(run.calls)) == ("no_progress", 1, 2)
    assert run.score == Score(True, False, False)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_where_there_are_few_tools_the_right_ones_are_among_them(task):
    given = {tool.name for tool in measure.tools_for(task, TOOLS, "few")}
    assert len(given) == measure.FEW
    assert {expected.tool for expected in task.calls} <= given
    assert [tool.name for tool in measure.tools_for(task, TOOLS, "all")] == list(measure.READING)


def test_the_table_has_a_column_for_each_language_and_one_for_all():
    runs, _ = runs_of(["time", "date", "poem"], ("get_time",))
    lines = [" ".join(line.split()) for line in report.table(runs)]
    assert lines[0] == "Spanish Portuguese all"
    for line in ("runs 3 3 6", "right tool 67% 67% 67%", "stopped: completed 100% 100% 100%"):
        assert line in lines


def test_halves_and_kinds_are_told_apart():
    runs, _ = runs_of(["time", "date", "poem"], ("get_time",), languages=["en"])
    lines = [" ".join(line.split()) for line in report.table(runs)]
    for line in (
        "right in the tuning half 50%",
        "right in the other half 100%",
        "right, get_time 100%",
        "right, no call 0%",
    ):
        assert line in lines


def test_the_json_has_every_run_and_the_totals():
    runs, _ = runs_of(["time", "poem"], ("get_time",))
    told = json.loads(json.dumps(report.as_json(runs, "all")))
    assert told["totals"]["all"]["right"] == 0.5
    assert told["totals"]["es"]["stops"] == {"completed": 1.0}
    assert told["totals"]["pt"]["right_other"] is None
    assert [run["right"] for run in told["runs"]] == [True, False] * 2
    assert told["runs"][0]["calls"] == [{"tool": "get_time", "arguments": {}}]


def test_what_a_model_wrote_is_escaped():
    runs, _ = runs_of(["time"], ("read_file", {"path": "\u202e\x1b[2J"}), languages=["en"])
    (line,) = report.each(runs)
    assert line.isprintable()
    assert line.startswith("wrong  en  time")


# --- the command ------------------------------------------------------------------------------------------


def evaluation(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "evaluation", *arguments],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )


@pytest.mark.parametrize("wrong", [["--language", "fr"], ["--task", "none"], ["--tools", "some"], ["more"]])
def test_a_wrong_option_is_a_usage_error(wrong):
    done = evaluation(*wrong)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_real_engine_is_measured_and_gives_the_same_again():
    wanted = ("--json", "--task", "time", "--task", "read-server", "--language", "en", "--language", "pt")
    first, second = (evaluation(*wanted) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    told, again = (
        [(run["task"], run["language"], run["calls"], run["stop"]) for run in json.loads(done.stdout)["runs"]]
        for done in (first, second)
    )
    assert len(told) == 4
    assert told == again
