"""Many requests at once: few of them share a client, and all clients end together."""

import asyncio

from brida import AnthropicModel
from brida.core.events import Started
from brida.core.request import Head, Request
from brida.models.anthropic import LANE
from support.command import ServerProcess


def request_to(model: str) -> Request:
    started = Started(0.0, "run", model, max_tokens=100, max_tokens_ceiling=100)
    return Request(Head.of(started), 100, b'[{"role":"user","content":"Say it."}]')


def test_requests_one_after_another_share_one_client():
    async def main(model):
        for _ in range(3 * LANE):
            await model.complete(request_to(model.name), lambda _: None)
        (owned,) = model._owned.values()
        await model.close()
        return len(owned._clients)

    with ServerProcess("bench") as server:
        assert asyncio.run(main(AnthropicModel("bench-0", base_url=server.base_url))) == 1


def test_requests_at_once_have_clients_enough_and_give_them_back():
    async def main(model):
        for _ in range(2):
            requests = (model.complete(request_to(model.name), lambda _: None) for _ in range(3 * LANE))
            replies = await asyncio.gather(*requests)
            assert [reply.stop_reason for reply in replies] == ["end_turn"] * (3 * LANE)
        (owned,) = model._owned.values()
        busy, clients = [*owned._busy], [*owned._clients]
        await model.close()
        return busy, [client.is_closed() for client in clients], {client.api_key for client in clients}

    with ServerProcess("bench") as server:
        model = AnthropicModel("bench-0", base_url=server.base_url, api_key="a-key-of-a-test")
        assert asyncio.run(main(model)) == ([0, 0, 0], [True, True, True], {"a-key-of-a-test"})


def test_a_cancelled_request_gives_its_place_back():
    async def main(model):
        tasks = [asyncio.ensure_future(model.complete(request_to(model.name), print)) for _ in range(LANE)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await model.complete(request_to(model.name), lambda _: None)
        (owned,) = model._owned.values()
        await model.close()
        return owned._busy

    with ServerProcess("bench") as server:
        assert asyncio.run(main(AnthropicModel("bench-0", base_url=server.base_url))) == [0]
