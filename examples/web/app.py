"""A web endpoint that streams a run as server-sent events: python examples/web/app.py 8000

    curl -N "http://127.0.0.1:8000/answer?task=What+time+is+it"

Needs fastapi and uvicorn besides brida. A client that hangs up cancels its run: the request to the model
ends, and so does a call under way. Who may ask, and how often, is for you to put in front of this.
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from json import dumps
from typing import Annotated

import uvicorn
from fastapi import FastAPI, Query
from fastapi.responses import StreamingResponse

from brida import Agent, Delta, Limits, Outcome, tool


@tool(impact="read", volatile=True)
def get_time() -> str:
    """Return the current time as an ISO 8601 text."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


agent = Agent(  # holds no run: one agent serves all requests, also at once
    model=os.environ.get("BRIDA_MODEL", "claude-sonnet-5"),
    tools=[get_time],
    limits=Limits(max_turns=4, max_tokens_total=20_000, deadline=60),
)
app = FastAPI()


@app.get("/answer")
async def answer(task: Annotated[str, Query(pattern=r"\S", max_length=2_000)]) -> StreamingResponse:
    """The run as events: ``text`` for each piece as it arrives, then one ``outcome``, whatever ended it.

    Pieces are for watching: a reply that was cut off is thrown away and asked for again. What counts is
    the text of the outcome.
    """
    return StreamingResponse(events(task), media_type="text/event-stream")


async def events(task: str) -> AsyncIterator[str]:
    async with aclosing(agent.stream(task)) as happening:
        async for what in happening:
            match what:
                case Delta(kind="text"):
                    yield event("text", what.text)
                case Outcome():
                    yield event("outcome", what.to_json())


def event(name: str, value: object) -> str:
    return f"event: {name}\ndata: {dumps(value)}\n\n"


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]))
