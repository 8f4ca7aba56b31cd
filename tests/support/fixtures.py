"""The scripted server as a fixture; ``pytest_plugins = ["support.fixtures"]`` brings it in."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from support.script import Script
from support.server import Server


@pytest.fixture
def model_server() -> Iterator[Callable[..., Server]]:
    """``model_server(replies, **options)`` starts a server; it is closed, and checked, when the test ends."""
    with ExitStack() as stack:

        def start(replies: Script, **options: Any) -> Server:
            return stack.enter_context(Server(replies, **options))

        yield start
