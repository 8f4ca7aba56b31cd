"""What a person wants after Ctrl-C: to go on, to say something, to park the run, or to end it."""

import asyncio
from dataclasses import dataclass

from brida.agent import Agent
from brida.approval.terminal import StandardInput
from brida.cli.screen import Screen
from brida.core.stops import Stop
from brida.texts.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class Choice:
    """How the run goes on: with ``text``, or at once to ``stop``, or as if nothing had been."""

    text: str | None = None
    stop: Stop | None = None


class Menu:
    """Asks at the terminal once a run was interrupted. The run waits in the journal meanwhile."""

    def __init__(self, agent: Agent, screen: Screen, say: Catalogue) -> None:
        self._agent, self._screen, self._say = agent, screen, say
        self._asking: asyncio.Task[str | None] | None = None

    def leave(self) -> None:
        """Ends the question, as Ctrl-C does."""
        if self._asking is not None:
            self._asking.cancel()

    async def ask(self) -> Choice | None:
        """What the person chose; None where the run is to end."""
        words = self._say("[interrupted] g goes on · s TEXT says something · p parks the run · Enter ends it")
        read = StandardInput()
        while True:
            self._screen.end_line()
            read.discard()
            self._screen.line(words)
            self._asking = asyncio.create_task(read())
            await asyncio.wait([self._asking])
            line = None if self._asking.cancelled() else self._asking.result()
            word, _, rest = (line or "").strip().partition(" ")
            match word.lower():
                case "":
                    return None
                case "e" if not rest:
                    return None
                case "g" if not rest:
                    return Choice()
                case "p" if not rest:
                    return Choice(stop=Stop("waiting"))
                case "s" if rest.strip():
                    return Choice(text=rest.strip())
                case _:
                    self._screen.line(self._say("not understood"))
