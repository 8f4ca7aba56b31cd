"""Which client the Anthropic model asks, with which credential, where, and what no text of it shows."""

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading

import anthropic
import httpx2
import pytest

from brida.errors import ConfigurationError
from brida.models.anthropic import AnthropicModel, credential_available
from support.attempts import ask, attempt, sent_by
from support.script import CloseConnection, Error, RawBody, says
from support.server import Server

both = pytest.mark.parametrize("stream", [True, False])
KEY = "sk-ant-canary-api03-0123456789-0123456789"

pytestmark = pytest.mark.usefixtures("bare")


# --- settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"client": object()}, "client"),
        ({"client": httpx2.Client()}, "client"),
        ({"base_url": ""}, "base_url"),
        ({"base_url": " http://host"}, "base_url"),
        ({"base_url": "http://host\n"}, "base_url"),
        ({"base_url": "http://ho st"}, "base_url"),
        ({"base_url": "http://host?"}, "base_url"),
        ({"base_url": "http://host#x"}, "base_url"),
        ({"base_url": "http://host\\@other"}, "base_url"),
        ({"base_url": "http://host:99999"}, "base_url"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_setting_that_makes_no_sense_is_named_at_once(settings, named):
    with pytest.raises(ConfigurationError, match=f"^{named}: "):
        AnthropicModel("m", **settings)


def test_a_password_in_a_wrong_address_is_not_told():
    with pytest.raises(ConfigurationError) as raised:
        AnthropicModel("m", base_url="http://user:hunter2@host?x=1")
    assert "hunter2" not in str(raised.value)


def test_the_address_comes_from_the_call_else_the_environment_else_it_is_anthropics(monkeypatch):
    assert AnthropicModel("m").base_url == "https://api.anthropic.com"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://here:1/pre")
    assert AnthropicModel("m").base_url == "http://here:1/pre"
    assert AnthropicModel("m", base_url="http://there:2").base_url == "http://there:2"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "here")
    with pytest.raises(ConfigurationError, match="base_url"):
        AnthropicModel("m")


@pytest.mark.parametrize(
    "url, needs",
    [
        ("https://api.anthropic.com", True),
        ("https://API.ANTHROPIC.COM./v", True),
        ("https://user@anthropic.com", True),
        ("https://api.anthropic.com@evil.example", False),
        ("https://notanthropic.com", False),
        ("https://anthropic.com.evil.example", False),
    ],
)
def test_only_anthropics_own_hosts_need_a_credential(url, needs):
    assert AnthropicModel("m", base_url=url).needs_credential is needs
    assert AnthropicModel("m", base_url=url, api_key="k").needs_credential is False


# --- credentials --------------------------------------------------------------------------------------------


def test_a_server_that_needs_no_key_gets_a_placeholder():
    with Server([says("x")]) as server:
        assert ask(server).stop_reason == "end_turn"
    assert sent_by(server) == "Bearer none"


def test_a_key_that_is_given_beats_the_environments(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    with Server([says("x")]) as server:
        ask(server, api_key="given")
    assert sent_by(server) == "Bearer given"


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_the_environments_credential_is_used_where_none_is_given(monkeypatch, name):
    monkeypatch.setenv(name, "from-the-environment")
    with Server([says("x")]) as server:
        ask(server)
    assert sent_by(server) == "Bearer from-the-environment"


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY}", "ключ", "a\x00b"])
@pytest.mark.parametrize("given", [True, False])
def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(monkeypatch, key, given):
    if not given and "\x00" in key:
        return  # no environment can hold it
    if not given:
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    with Server([]) as server:
        with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY") as raised:
            ask(server, api_key=key if given else None)
        assert server.requests == []
    assert key.strip() not in str(raised.value)


def test_a_profile_that_the_sdk_cannot_read_is_a_configuration_error(monkeypatch, tmp_path):
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "default.json").write_text("{")
    with Server([]) as server, pytest.raises(ConfigurationError, match=r"^model: "):
        ask(server)


FEDERATION = {
    "ANTHROPIC_IDENTITY_TOKEN": "t",
    "ANTHROPIC_FEDERATION_RULE_ID": "r",
    "ANTHROPIC_ORGANIZATION_ID": "o",
}
PROFILE = '{"version": "1", "authentication": {"type": "oidc_federation"}, "organization_id": "o"}'


@pytest.mark.parametrize(
    "variables, files",
    [
        ({}, {}),
        ({"ANTHROPIC_API_KEY": ""}, {}),
        ({"ANTHROPIC_API_KEY": "k"}, {}),
        ({"ANTHROPIC_AUTH_TOKEN": "t"}, {}),
        (FEDERATION, {}),
        *[
            ({name: FEDERATION[name] for name in FEDERATION if name != left_out}, {})
            for left_out in FEDERATION
        ],
        ({}, {"configs/work.json": PROFILE}),
        ({}, {"configs/default.json": PROFILE}),
        ({}, {"configs/work.json": PROFILE, "active_config": "work\n"}),
        ({}, {"configs/default.json": PROFILE, "active_config": "\n"}),
    ],
    ids=range(12),
)
def test_a_credential_is_available_where_the_sdk_finds_one(monkeypatch, tmp_path, variables, files):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for name, content in files.items():
        path = tmp_path / ".config" / "anthropic" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    client = anthropic.AsyncAnthropic()
    found = bool(client.api_key or client.auth_token or client.credentials)
    assert credential_available(os.environ) is found


def test_looking_for_a_credential_imports_nothing():
    code = """if True:
        import asyncio, sys
        from brida.models.anthropic import AnthropicModel, credential_available
        credential_available({})
        assert not {"anthropic", "httpx2"} & sys.modules.keys()
        model = AnthropicModel("m", base_url="http://127.0.0.1:9")
        model.preload()
        async def main():
            ticks = 0
            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0.001)
            ticking = asyncio.create_task(tick())
            first = asyncio.create_task(model.complete(None, print))
            await asyncio.sleep(0)
            first.cancel()
            from brida.core.request import Request
            head = type("Head", (), {"encoded": b'{"model":"m"'})
            try:
                await model.complete(Request(head, 1, b"[]"), print)
            except Exception as error:
                print(type(error).__name__, error.fault.kind, ticks > 3)
        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("ModelFault connection True\n", "")


def test_without_the_sdk_the_error_says_what_to_install():
    code = """if True:
        import asyncio, sys
        sys.modules["anthropic"] = None
        from brida import AnthropicModel, ConfigurationError
        model = AnthropicModel("m", api_key="k")
        model.preload()
        try:
            asyncio.run(model.complete(None, print))
        except ConfigurationError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert "pip install anthropic" in done.stdout
    assert done.stderr == ""


# --- what no text shows -------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("padding", [0, 480, 490, 499])
def test_a_key_that_a_server_echoes_is_taken_out_whole(stream, padding):
    with Server([Error(401, message="x" * padding + f" {KEY} is wrong")]) as server:
        fault = ask(server, stream=stream, api_key=KEY)
    assert KEY[:10] not in fault.message
    assert len(fault.message) <= 500


@both
@pytest.mark.parametrize(
    "body",
    [KEY, json.dumps(KEY), json.dumps({"type": KEY, "stop_reason": None}), json.dumps({"content": KEY})],
)
def test_a_key_in_a_malformed_body_is_taken_out(stream, body):
    payload = f"data: {body}\n\nevent: error\ndata: {KEY}\n\n" if stream else body
    with Server([RawBody(200, payload.encode())]) as server:
        fault = ask(server, stream=stream, api_key=KEY)
    assert KEY[:10] not in repr(fault)


def test_a_key_that_leaves_in_a_header_of_ones_own_is_taken_out(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", f"X-Gateway-Token: {KEY}")
    with Server([Error(403, message=f"{KEY} has no rights")]) as server:
        fault = ask(server)
    assert fault.message == "*** has no rights"


def test_a_password_in_the_address_goes_out_and_is_shown_nowhere():
    echo = Error(401, message="hunter2-is-my-password is wrong")
    with Server([echo, CloseConnection()], require_key=False) as server:

        async def main():
            url = server.base_url.replace("//", "//user:hunter2-is-my-password@")
            model = AnthropicModel("m", base_url=url)
            faults = [await attempt(model), await attempt(model)]
            await model.close()
            return model, faults

        model, faults = asyncio.run(main())
        assert (sent_by(server) or "").startswith("Basic ")
    assert faults[0].message == "*** is wrong"
    assert "hunter2" not in repr((model.base_url, faults))


def test_a_client_whose_key_no_header_can_hold_does_not_show_it():
    async def main():
        async with anthropic.AsyncAnthropic(api_key=f"{KEY}\n", base_url="http://127.0.0.1:9") as client:
            return await attempt(AnthropicModel("m", client=client))

    fault = asyncio.run(main())
    assert (fault.kind, fault.billed) == ("connection", False)
    assert KEY[:10] not in repr(fault)


# --- event loops --------------------------------------------------------------------------------------------


def test_loops_in_several_threads_share_one_model():
    with Server(lambda at, body: says("x"), require_key=False) as server:
        model = AnthropicModel("m", base_url=server.base_url)
        replies = []

        def work():
            async def main():
                replies.extend([await attempt(model) for _ in range(5)])
                await model.close()

            asyncio.run(main())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [reply.stop_reason for reply in replies] == ["end_turn"] * 20


def test_a_close_that_was_forgotten_leaves_nothing_open():
    with Server(lambda at, body: says("x"), require_key=False) as server:
        model = AnthropicModel("m", base_url=server.base_url)
        for _ in range(3):
            asyncio.run(attempt(model))
            gc.collect()


def test_many_requests_at_once_are_all_answered_and_leave_nothing_open():
    with Server(lambda at, body: says("x"), require_key=False) as server:

        async def main():
            model = AnthropicModel("m", base_url=server.base_url)
            try:
                return await asyncio.gather(*(attempt(model) for _ in range(40)))
            finally:
                await model.close()

        assert [reply.stop_reason for reply in asyncio.run(main())] == ["end_turn"] * 40
        gc.collect()


def test_a_closed_model_can_be_used_again():
    with Server(lambda at, body: says("x"), require_key=False) as server:

        async def main():
            model = AnthropicModel("m", base_url=server.base_url)
            await model.close()
            first = await attempt(model)
            await model.close()
            await model.close()
            second = await attempt(model)
            await model.close()
            return first.stop_reason, second.stop_reason

        assert asyncio.run(main()) == ("end_turn", "end_turn")
