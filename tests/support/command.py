"""The server as a process of its own.

``python -m support.server --port 0 --script NAME|FILE`` prints its port as the first line of stdout. A
NAME is one of ``NAMED``, or ``bench`` for the fast one (see ``instant``); a FILE is Python that binds
``replies``, a list or a function as ``Server`` takes. It ends on SIGTERM or SIGINT, and with
``--until-stdin-closes`` when its stdin does. The last line of stdout is then one JSON object:
``{"requests": COUNT, "violations": [...]}``.

``ServerProcess`` starts and closes one from a test.
"""

import argparse
import asyncio
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from support import instant
from support.script import Script, asks, overloaded, rate_limited, says, tool_use
from support.server import Server

NAMED: Mapping[str, Script] = {
    "hello": lambda at, body: says("Hello!"),
    "clock": [
        asks(tool_use("toolu_1", "read_file", {"path": "README.md"})),
        asks(tool_use("toolu_2", "get_time")),
        says("It is noon."),
    ],
    "faults": [rate_limited(0), overloaded(), says("Hello, at last.")],
    "echo": lambda at, body: says(json.dumps(body["messages"][-1], ensure_ascii=False)),
    "parallel": [
        asks(tool_use("toolu_1", "get_time"), tool_use("toolu_2", "get_time"), words="Twice."),
        says("Done."),
    ],
}


def load_script(name: str) -> Script:
    if name in NAMED:
        return NAMED[name]
    replies: Script = runpy.run_path(name)["replies"]
    return replies


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m support.server", description="A scripted Messages API.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", default="hello", help=f"{', '.join(NAMED)}, bench, or a Python file")
    parser.add_argument("--no-key", action="store_true", help="take requests without a key")
    parser.add_argument("--until-stdin-closes", action="store_true")
    parser.add_argument("--tool", default="echo", help="bench: the tool that is called")
    parser.add_argument("--input", default='{"text": "turn %d"}', help="bench: its input; %%d is the turn")
    options = parser.parse_args(arguments)
    if options.script == "bench":
        bench = instant.Instant(tool=options.tool, input_template=options.input, port=options.port)
        asyncio.run(_serve(bench, options.until_stdin_closes))
        print(json.dumps({"requests": bench.requests, "violations": []}), flush=True)
        return
    server = Server(load_script(options.script), port=options.port, require_key=not options.no_key)
    asyncio.run(_serve(server, options.until_stdin_closes))
    violations = [{"request": one.request, "problems": one.problems} for one in server.violations]
    print(json.dumps({"requests": len(server.requests), "violations": violations}), flush=True)


async def _serve(server: Server | instant.Instant, until_stdin_closes: bool) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.close)

    def listening(on: int) -> None:
        print(on, flush=True)
        if until_stdin_closes:
            threading.Thread(target=_close_with_stdin, args=(server.close,), daemon=True).start()

    await server.serve(listening)


def _close_with_stdin(close: Callable[[], None]) -> None:
    while os.read(0, 1 << 12):
        pass
    close()


class ServerProcess:
    """``with ServerProcess("bench") as server: ...``; then ``server.summary`` is its last line, parsed."""

    def __init__(self, script: str = "hello", *arguments: str) -> None:
        self._arguments = ("--script", script, *arguments, "--until-stdin-closes")
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.summary: dict[str, Any] = {}

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> "ServerProcess":
        tests = str(Path(__file__).resolve().parent.parent)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.server", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": tests},
        )
        self.port = int(_stream(self._process.stdout).readline())
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        with self._process as process:
            _stream(process.stdin).close()
            lines = _stream(process.stdout).read().splitlines()
        self.summary = json.loads(lines[-1]) if lines else {}


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
