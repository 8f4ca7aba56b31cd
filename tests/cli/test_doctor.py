"""``brida doctor`` as a process: what it finds, what it says to do, and what it never shows."""

import io
import json
import os
import re
import socket
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pexpect
import pytest

from brida.cli.commands import build
from brida.cli.doctor import NEEDED
from brida.cli.screen import Screen
from brida.texts.catalogue import ENGLISH
from support.answers import Answers
from support.process import BRIDA, Ran, brida, environment
from support.server import Server

CANARY = "sk-ant-canary-8Qk2xVb7Lw0Zp4Rt"


@pytest.fixture
def home(tmp_path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def doctor(home, project):
    """Runs ``brida doctor`` with a home of its own; whatever happens, no part of the key is shown."""

    def run(*arguments: str, **env: str) -> Ran:
        ran = brida("doctor", *arguments, cwd=project, env={"HOME": str(home), **env})
        for at in range(len(CANARY) - 5):
            assert at < 8 or CANARY[at : at + 6] not in ran.out + ran.err
        assert "Traceback" not in ran.err
        return ran

    return run


@pytest.fixture
def quick(home, project, monkeypatch):
    """The same within this process, where it is the network that matters."""
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "BRIDA_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)

    def run(*arguments: str, **env: str) -> Ran:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        out = io.StringIO()
        command = build(ENGLISH, Screen(out, io.StringIO()))
        code = command.main(["doctor", "--json", *arguments], standalone_mode=False)
        assert CANARY[8:14] not in out.getvalue()
        return Ran(code, out.getvalue(), "")

    return run


def check(ran: Ran, name: str) -> dict:
    """The one check of that name in the JSON report."""
    (found,) = [one for one in ran.object["checks"] if one["name"] == name]
    return found


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port where connections are taken and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def dead_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def models(*names: str) -> bytes:
    return json.dumps({"data": [{"id": name} for name in names], "has_more": False}).encode()


# --- all is well ------------------------------------------------------------------------------------------


def test_a_server_that_answers_and_knows_the_model_is_no_problem(doctor):
    with Server([]) as server:
        ran = doctor("--json", ANTHROPIC_BASE_URL=server.base_url, ANTHROPIC_API_KEY=CANARY)
        assert [one.path for one in server.requests] == ["/v1/models", "/v1/models/claude-sonnet-5"]
        assert {one.headers["authorization"] for one in server.requests} == {f"Bearer {CANARY}"}
    assert ran.code == 0, ran.out
    assert ran.object["problems"] == 0
    assert check(ran, "server")["text"] == f"{server.base_url} answers"
    assert check(ran, "model")["text"] == "claude-sonnet-5 is known to the server"
    found = check(ran, "credential")
    assert found["text"] == f"found in ANTHROPIC_API_KEY; it goes to {server.base_url}"


def test_every_check_is_one_line_that_begins_with_how_it_is(doctor):
    with Server([], require_key=False) as server:
        ran = doctor("--base-url", server.base_url)
    lines = ran.out.splitlines()
    assert len(lines) >= 12
    assert {line.split()[0] for line in lines} <= {"ok", "warning", "problem"}
    assert ran.err == "\n0 problems · 0 warnings\n"


def test_every_extra_says_what_it_gives(quick):
    texts = [one["text"] for one in quick("--offline").object["checks"] if one["name"] == "extra"]
    assert [text.split()[0] for text in texts] == ["embedded", "chat", "regex"]
    assert all(": " in text for text in texts)


def test_offline_asks_nobody(doctor):
    with Answers() as server:
        ran = doctor("--offline", "--json", "--base-url", server.url, ANTHROPIC_API_KEY=CANARY)
        assert server.asked == []
    assert ran.code == 0
    assert "was not asked" in check(ran, "server")["text"]


# --- credentials ------------------------------------------------------------------------------------------


def test_a_server_of_anthropic_without_a_credential_is_a_problem_and_is_not_asked(quick):
    ran = quick("--model", "claude-sonnet-5")
    assert ran.code == 5
    assert check(ran, "credential")["level"] == "problem"
    assert "set ANTHROPIC_API_KEY" in check(ran, "credential")["advice"]
    assert "server" not in [one["name"] for one in ran.object["checks"]]


def test_without_credential_and_base_url_it_says_that_the_embedded_model_is_used(quick):
    ran = quick()
    assert ran.code == 0
    assert check(ran, "model")["level"] == "warning"
    assert "embedded model" in check(ran, "model")["text"]


def test_whoever_asks_for_the_embedded_model_is_not_warned(quick):
    ran = quick("--model", "embedded", ANTHROPIC_API_KEY=CANARY)
    assert check(ran, "model")["level"] == "ok"


def test_a_key_with_a_line_break_is_a_problem_and_goes_nowhere(quick):
    with Answers() as server:
        ran = quick("--base-url", server.url, ANTHROPIC_API_KEY=f"{CANARY}\n")
        assert server.asked == []
    assert (ran.code, check(ran, "credential")["level"]) == (5, "problem")


def test_a_key_that_goes_over_plain_http_to_another_machine_is_warned_of(quick):
    ran = quick("--offline", "--base-url", "http://example.test", ANTHROPIC_API_KEY=CANARY)
    assert check(ran, "credential")["level"] == "warning"


def test_a_profile_that_is_not_there_is_a_problem_with_the_credential(quick):
    with Answers() as server:
        ran = quick("--base-url", server.url, ANTHROPIC_PROFILE="nowhere")
    assert ran.code == 5
    assert "the credential cannot be used" in check(ran, "server")["text"]


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_refuses_the_credential_is_a_problem(doctor, status):
    words = json.dumps({"error": {"type": "x", "message": f"wrong key {CANARY}"}}).encode()
    with Answers(status, words) as server:
        ran = doctor("--json", "--base-url", server.url, ANTHROPIC_API_KEY=CANARY)
        assert server.asked == ["/v1/models"]
    assert ran.code == 5
    assert "refuses the credential" in check(ran, "server")["advice"]


def test_a_password_in_the_base_url_is_not_shown(doctor):
    with Answers() as server:
        ran = doctor("--base-url", server.url.replace("://", "://somebody:hunter2@"))
        assert server.asked
    assert "hunter2" not in ran.out + ran.err


def test_the_key_does_not_follow_a_redirect(doctor):
    with Answers() as other, Answers(302, location=f"{other.url}/v1/models") as server:
        ran = doctor("--json", "--base-url", server.url, ANTHROPIC_API_KEY=CANARY)
        assert other.asked == []
        assert server.keys == [f"Bearer {CANARY}"]
    assert (ran.code, check(ran, "server")["level"]) == (5, "problem")


# --- servers ----------------------------------------------------------------------------------------------


def test_a_dead_port_is_a_problem_that_says_that_nobody_listens(quick):
    ran = quick("--base-url", f"http://127.0.0.1:{dead_port()}")
    assert ran.code == 5
    assert "nobody listens there" in check(ran, "server")["text"]
    assert "clock" not in [one["name"] for one in ran.object["checks"]]


def test_a_server_that_never_answers_is_given_up_in_time(quick, deaf):
    before = time.monotonic()
    ran = quick("--base-url", f"http://127.0.0.1:{deaf}")
    assert time.monotonic() - before < 25  # 8 s by itself; the rest is for a busy machine
    assert ran.code == 5
    assert "no answer in time" in check(ran, "server")["text"]


def test_a_server_that_trickles_for_ever_is_given_up_in_time(quick):
    done = threading.Event()

    def trickle(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(10_000)
            connection.sendall(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900000\r\n\r\n"
            )
            while not done.wait(0.3):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=trickle, args=(listening,))
        thread.start()
        ran = quick("--base-url", f"http://127.0.0.1:{listening.getsockname()[1]}")
        done.set()
        thread.join()
    assert ran.code == 5
    assert "no answer in time" in check(ran, "server")["text"]


def test_tls_where_none_is_spoken_is_told_apart_from_silence(quick):
    def answer_nonsense(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(10_000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer_nonsense, args=(listening,))
        thread.start()
        ran = quick("--base-url", f"https://127.0.0.1:{listening.getsockname()[1]}")
        thread.join()
    assert ran.code == 5
    assert "TLS" in check(ran, "server")["text"]


def test_certificates_that_cannot_be_read_are_a_problem_with_that_variable(quick, tmp_path):
    ran = quick("--base-url", "https://127.0.0.1:9", SSL_CERT_FILE=str(tmp_path / "none.pem"))
    assert ran.code == 5
    assert "SSL_CERT_FILE" in check(ran, "server")["advice"]


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_a_list_of_models_is_no_problem(quick, status):
    with Answers(status) as server:
        ran = quick("--base-url", server.url, "--model", "mine.gguf")
    assert (ran.code, ran.object["warnings"]) == (0, 0)
    assert "does not say" in check(ran, "model")["text"]


def test_a_server_in_trouble_is_a_warning(quick):
    with Answers(529) as server:
        ran = quick("--base-url", server.url)
    assert (ran.code, check(ran, "server")["level"]) == (0, "warning")


def test_a_model_that_is_not_listed_is_a_warning_that_names_those_that_are_near(quick):
    with Server([], require_key=False) as server:
        ran = quick("--base-url", server.base_url, "--model", "claude-sonet-5")
    assert (ran.code, check(ran, "model")["level"]) == (0, "warning")
    assert "claude-sonnet-5" in check(ran, "model")["advice"]


def test_a_model_that_anthropic_does_not_list_is_a_problem(quick):
    url = "http://api.anthropic.com"
    with Answers(200, models("claude-sonnet-5"), only=f"{url}/v1/models") as proxy:
        env = {"HTTP_PROXY": proxy.url, "http_proxy": proxy.url, "NO_PROXY": "", "no_proxy": ""}
        ran = quick("--base-url", url, "--model", "claude", ANTHROPIC_API_KEY=CANARY, **env)
        assert proxy.asked == [f"{url}/v1/models", f"{url}/v1/models/claude"]
    assert (ran.code, check(ran, "model")["level"]) == (5, "problem")


def test_a_list_with_the_model_is_enough_where_a_single_one_cannot_be_asked_for(quick):
    with Answers(200, models("mine.gguf"), only="/v1/models") as server:
        ran = quick("--base-url", server.url, "--model", "mine.gguf")
    assert check(ran, "model")["text"] == "mine.gguf is known to the server"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'{"data": 7}', b"[" * 100_000, b"\xff\xfe", b"{" * 2_000_000]
)
def test_a_list_that_is_none_breaks_nothing(quick, body):
    with Answers(200, body) as server:
        ran = quick("--base-url", server.url)
    assert ran.code == 0, ran.out


def test_names_of_models_cannot_write_to_the_terminal(doctor):
    with Server(
        [], require_key=False, models={"\x1b]0;owned\x07\nx": {"id": "\x1b]0;owned\x07\nx"}}
    ) as server:
        ran = doctor("--base-url", server.base_url, "--model", "other")
    assert "\x1b" not in ran.out
    assert "\\x1b]0;owned" in ran.out


@pytest.mark.parametrize("url", ["nonsense", "ftp://host", "http://", "http://a b"])
def test_a_base_url_that_is_none_is_a_problem_where_it_was_found_and_wrong_use_as_a_flag(doctor, url):
    ran = doctor("--json", ANTHROPIC_BASE_URL=url)
    assert ran.code == 5
    assert "ANTHROPIC_BASE_URL" in check(ran, "settings")["text"]
    assert doctor("--base-url", url).code == 2


# --- settings ---------------------------------------------------------------------------------------------


def test_the_files_of_settings_that_were_found_are_named(quick, project, home):
    config = home / ".config" / "brida"
    config.mkdir(parents=True)
    (config / "brida.toml").write_text('model = "mine"\n')
    (project / "brida.toml").write_text('base_url = "http://evil.test"\n')
    with Answers(404) as server:
        ran = quick(ANTHROPIC_BASE_URL=server.url)
        assert server.asked == ["/v1/models", "/v1/models/mine"]
    texts = [one["text"] for one in ran.object["checks"] if one["name"] == "settings"]
    assert str(config / "brida.toml") in texts[0]
    assert str(project / "brida.toml") in texts[1]
    assert "not trusted" in texts[1]


def test_a_server_that_only_an_untrusted_file_names_is_warned_of_and_not_asked(quick, project):
    with Answers() as server:
        (project / "brida.toml").write_text(f'base_url = "{server.url}"\nmodel = "m"\n')
        ran = quick(ANTHROPIC_API_KEY=CANARY, ANTHROPIC_BASE_URL=f"http://127.0.0.1:{dead_port()}")
        assert server.asked == []
    assert "warning" in [one["level"] for one in ran.object["checks"] if one["name"] == "settings"]


def test_a_file_of_settings_that_is_wrong_is_a_problem_and_no_model_is_looked_for(doctor, project):
    (project / "brida.toml").write_text("modle = 7\n\x1b")
    ran = doctor("--json", ANTHROPIC_API_KEY=CANARY)
    assert ran.code == 5
    assert "brida.toml" in check(ran, "settings")["text"]
    assert "server" not in [one["name"] for one in ran.object["checks"]]
    assert "\x1b" not in doctor().out


def test_a_variable_that_means_nothing_is_a_problem(quick):
    ran = quick("--offline", BRIDA_MODLE="x")
    assert any("BRIDA_MODLE" in one["text"] for one in ran.object["checks"] if one["level"] == "problem")


def test_what_the_package_needs_is_what_its_metadata_says():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=!~ \[]", one)[0].replace("-", "_") for one in project["dependencies"]}
    assert set(NEEDED) == names


def test_a_model_made_in_code_is_not_looked_for(doctor, project):
    (project / "mine.py").write_text(
        "from brida import Agent, ScriptedModel\nagent = Agent(model=ScriptedModel([], name='made'))\n"
    )
    ran = doctor("--json", "--agent", "mine:agent", ANTHROPIC_API_KEY=CANARY)
    assert ran.code == 0
    assert check(ran, "model")["text"] == "made is made in code: it is not looked for"


# --- the clock --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seconds, level, words",
    [
        (0, "ok", "agrees"),
        (-240, "ok", "agrees"),
        (900, "warning", "15 minutes behind"),
        (-7200, "warning", "120 minutes ahead"),
    ],
)
def test_the_clock_is_held_against_the_servers(quick, seconds, level, words):
    with Answers(200, models("m"), date=formatdate(time.time() + seconds, usegmt=True)) as server:
        ran = quick("--base-url", server.url, "--model", "m")
    assert ran.code == 0
    found = check(ran, "clock")
    assert (found["level"], words in found["text"]) == (level, True), found


@pytest.mark.parametrize("date", ["", "noon", "Mon, 99 Foo 99999 99:99:99 GMT"])
def test_a_server_that_tells_no_time_is_not_compared_with(quick, date):
    with Answers(200, models("m"), **({"date": date} if date else {})) as server:
        ran = quick("--base-url", server.url, "--model", "m")
    assert check(ran, "clock")["level"] == "ok"


# --- the place --------------------------------------------------------------------------------------------


def test_a_home_that_is_a_file_is_a_problem(quick, tmp_path):
    (tmp_path / "file").write_text("")
    ran = quick("--offline", HOME=str(tmp_path / "file"), XDG_STATE_HOME="", XDG_CONFIG_HOME="")
    assert ran.code == 5
    assert check(ran, "state directory")["level"] == "problem"
    assert check(ran, "settings directory")["level"] == "warning"


def test_looking_leaves_nothing_behind(doctor, home, project):
    doctor("--offline")
    assert [*home.iterdir(), *project.iterdir()] == []


def test_a_root_that_is_no_directory_is_wrong_use(doctor):
    ran = doctor("--offline", "--root", "nowhere\x1b[31m")
    assert ran.code == 2
    assert "\x1b" not in ran.err


def test_an_encoding_that_is_not_utf_8_is_a_warning(doctor):
    ran = doctor("--json", "--offline", PYTHONIOENCODING="latin-1")
    assert check(ran, "locale")["level"] == "warning"


@pytest.mark.parametrize("language", ["en", "es", "pt"])
def test_it_says_which_language_is_spoken(doctor, language):
    text = check(doctor("--json", "--offline", "--lang", language), "locale")["text"]
    assert language in text.partition(";")[0].split()


def test_a_wrong_flag_is_wrong_use(doctor):
    assert doctor("--nonsense").code == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_a_report_that_could_not_be_written_is_no_success(project, home):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*BRIDA, "doctor", "--offline"],
            cwd=project,
            env=environment(HOME=str(home)),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=50,
        )
    assert done.returncode == 5
    assert b"not all of the output could be written" in done.stderr


@pytest.mark.parametrize("kind, level", [("xterm", "ok"), ("dumb", "warning")])
def test_at_a_terminal_it_says_that_calls_can_be_asked_about(project, home, kind, level):
    env = environment(HOME=str(home), TERM=kind)
    terminal = pexpect.spawn(
        BRIDA[0],
        [*BRIDA[1:], "doctor", "--offline"],
        cwd=str(project),
        env=env,
        dimensions=(40, 100),
        timeout=50,
    )
    shown = terminal.read().decode()
    terminal.close()
    (line,) = [one for one in shown.splitlines() if " terminal: " in one]
    assert line.split()[0] == level
    assert f"{kind}, 100 columns: calls can be asked about" in line


def test_a_journal_that_is_none_is_a_problem_and_one_that_is_not_there_is_not_made(quick, home, tmp_path):
    ran = quick("--offline")
    assert check(ran, "journal")["level"] == "ok"
    assert not list(home.rglob("journal.db"))
    broken = tmp_path / "broken.db"
    broken.write_text("no database, but long enough to look like one " * 100)
    ran = quick("--offline", BRIDA_JOURNAL=str(broken))
    assert check(ran, "journal")["level"] == "problem"
    assert ran.code == 5
