"""Single attempts of the Anthropic model against a server."""

import asyncio

from brida.core.request import Request
from brida.errors import ModelFault
from brida.models.anthropic import AnthropicModel


class Head:
    encoded = b'{"model":"m"'


REQUEST = Request(Head(), 100, b'[{"role":"user","content":"hi"}]')  # type: ignore[arg-type]


async def attempt(model: AnthropicModel):
    """What came of one attempt: a reply or a fault."""
    try:
        return await model.complete(REQUEST, lambda delta: None)
    except ModelFault as error:
        return error.fault


def ask(server, *, stream=True, **settings):
    async def main():
        model = AnthropicModel("m", base_url=server.base_url, stream=stream, **settings)
        try:
            return await attempt(model)
        finally:
            await model.close()

    return asyncio.run(main())


def sent_by(server) -> str | None:
    return server.requests[0].headers.get("authorization")
