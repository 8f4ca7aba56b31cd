"""Clients of the caller's own: what is asked of them, and what of theirs is left as it is."""

import asyncio
import json

import anthropic
import httpx2
import pytest

from brida.models.anthropic import AnthropicModel
from support.attempts import REQUEST, attempt
from support.script import asks, overloaded, says, tool_use
from support.server import Server
from support.wire import encode_event, message, stream_events

both = pytest.mark.parametrize("stream", [True, False])
KEY = "sk-ant-canary-api03-0123456789-0123456789"

pytestmark = pytest.mark.usefixtures("bare")


def with_client(client, *, stream=True, times=1):
    async def main():
        async with client:
            model = AnthropicModel("m", client=client, stream=stream)
            results = [await attempt(model) for _ in range(times)]
            await model.close()
            return results

    return asyncio.run(main())


@both
def test_a_clients_own_retries_are_off_for_our_calls_alone(stream):
    with Server([overloaded(), says("x")]) as server:
        client = anthropic.AsyncAnthropic(api_key="k", base_url=server.base_url, max_retries=5)
        (fault, reply) = with_client(client, stream=stream, times=2)
        assert len(server.requests) == 2
    assert (fault.kind, reply.stop_reason, client.max_retries) == ("overloaded", "end_turn", 5)


@both
def test_a_clients_middleware_hides_no_error(stream):
    async def passing(request, call_next):
        return await call_next(request)

    with Server([overloaded(), says("x")]) as server:
        client = anthropic.AsyncAnthropic(api_key="k", base_url=server.base_url, middleware=[passing])
        (fault, reply) = with_client(client, stream=stream, times=2)
    assert (fault.kind, fault.billed, fault.status) == ("overloaded", False, 529)
    assert reply.stop_reason == "end_turn"


def test_a_client_of_a_class_of_ones_own_will_do():
    class Mine(anthropic.AsyncAnthropic):
        pass

    with Server([says("x")]) as server:
        (reply,) = with_client(Mine(api_key="k", base_url=server.base_url))
    assert reply.stop_reason == "end_turn"


@both
@pytest.mark.parametrize(
    "kind, settings",
    [
        (anthropic.AsyncAnthropicFoundry, {"api_key": "k"}),
        (anthropic.AsyncAnthropicBedrockMantle, {"api_key": "k", "aws_region": "r"}),
    ],
)
def test_clients_that_speak_the_api_as_it_is_send_the_bytes(stream, kind, settings):
    with Server([says("x")], require_key=False) as server:
        (reply,) = with_client(kind(base_url=server.base_url, **settings), stream=stream)
        assert server.requests[0].raw == REQUEST.body(stream=stream)
    assert reply.stop_reason == "end_turn"


class Cloud:
    """A cloud's own address of the API: notes what came and answers with a call."""

    def __init__(self, content=None):
        self.asked, self._content = [], content or asks(tool_use("t", "read", {"p": 1}))

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.asked.append((request.url.path, body))
        if isinstance(self._content, bytes):
            return httpx2.Response(200, content=self._content)
        if "stream" not in request.url.path.lower():
            return httpx2.Response(200, json=message(self._content, "msg_1", "m"))
        events = stream_events(self._content, "msg_1", "m")
        return httpx2.Response(200, content=b"".join(encode_event(*event) for event in events))

    @property
    def transport(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self))


def vertex(cloud: Cloud) -> anthropic.AsyncAnthropicVertex:
    return anthropic.AsyncAnthropicVertex(
        region="r", project_id="p", access_token="t", http_client=cloud.transport
    )


@both
def test_vertex_gets_its_own_address_and_body(stream):
    cloud = Cloud()
    (reply,) = with_client(vertex(cloud), stream=stream)
    ((path, body),) = cloud.asked
    assert path.endswith("/models/m:streamRawPredict" if stream else "/models/m:rawPredict")
    assert body == {
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "hi"}],
        "anthropic_version": body["anthropic_version"],
        **({"stream": True} if stream else {}),
    }
    assert (reply.stop_reason, reply.content[0]["input"]) == ("tool_use", {"p": 1})


def test_bedrock_gets_its_own_address_and_body():
    cloud = Cloud()
    client = anthropic.AsyncAnthropicBedrock(aws_region="r", api_key="k", http_client=cloud.transport)
    (reply,) = with_client(client, stream=False)
    assert cloud.asked[0][0] == "/model/m/invoke"
    assert reply.content[0]["input"] == {"p": 1}


START = b'event: message_start\ndata: {"type":"message_start","message":{"type":"message","content":[]}}\n\n'


@pytest.mark.parametrize(
    "content, kind",
    [
        (START, "cut_stream"),
        (START + b"event: x\ndata: {\n\n", "malformed_body"),
        (START + b'event: x\ndata: {"n": NaN}\n\n', "malformed_body"),
        (START + b'event: x\ndata: {"n": ' + b"[" * 300 + b"]" * 300 + b"}\n\n", "malformed_body"),
        (START + b"event: x\ndata: \xff\n\n", "malformed_body"),
        (START + b'event: error\ndata: {"error":{"type":"overloaded_error"}}\n\n', "overloaded"),
    ],
    ids=range(6),
)
def test_a_stream_that_the_sdk_decodes_is_judged_as_strictly(content, kind):
    (fault,) = with_client(vertex(Cloud(content)))
    assert (fault.kind, fault.again, fault.billed) == (kind, True, True)
