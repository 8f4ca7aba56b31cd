"""``brida chat``: a conversation at the terminal. Each message goes on with the same session."""

import asyncio
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from brida.approval.terminal import Terminal
from brida.cli.asking import terminal_approver
from brida.cli.chat_commands import COMMANDS, Conversation
from brida.cli.flags import Flags
from brida.cli.journal_option import events_of, open_journal
from brida.cli.making import agent_of_record, make_agent
from brida.cli.reins import Reins
from brida.cli.screen import Screen, somebody_is_there
from brida.cli.trace import Trace
from brida.cli.transcript import markdown
from brida.core.events import Started
from brida.core.state import State, fold
from brida.core.stops import EXIT_CODES
from brida.errors import ConfigurationError, JournalError, ResumeRefused
from brida.models.base import close_quietly
from brida.runtime import loops
from brida.texts.catalogue import Catalogue

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings

    from brida.journal.sqlite import SqliteJournal


def run_chat(settings: Flags, say: Catalogue, screen: Screen, continued: str | None = None) -> int:
    """Talks until the person ends it; gives the exit code.

    ``continued``: the run of the journal to go on with, ``""`` for the last conversation. Raises
    :class:`ConfigurationError` where there is no terminal, or a setting is wrong.
    """
    if not somebody_is_there(screen):
        raise ConfigurationError(say("a conversation needs a terminal; brida run answers a task without one"))
    ask = terminal_approver(screen, lambda: agent.tools)
    tell = (lambda _: None) if settings.quiet else screen.line
    with redirect_stdout(sys.stderr or io.StringIO()):  # what a module or a tool prints is no answer
        if continued is None:
            agent = make_agent(settings, say, tell, ask)
            agent.settings = {**(agent.settings or {}), "conversation": True}
            conversation = Conversation(agent, Catalogue.for_language(agent.language))
        else:
            conversation = _continued(continued, settings, say, screen, ask)
            agent = conversation.agent
        talk = Talk(conversation, screen, quiet=settings.quiet)
        return loops.run(talk.until_it_ends, handle_interrupt=False)


def _continued(
    run: str, settings: Flags, say: Catalogue, screen: Screen, ask: Callable[[Catalogue], Terminal]
) -> Conversation:
    """A conversation of the journal; the person sees where it stood."""
    given = settings.settings.get("journal")
    journal = open_journal(None if given is None else str(given.value), say)
    run_id = journal.find(run) if run else _last_conversation(journal, say)
    state = fold(events_of(journal, run_id))
    agent = agent_of_record(state.started, settings, say, screen.line, ask)
    agent.journal = journal
    messages = _closed(state)
    for line in markdown(messages[-2:], agent.say).splitlines():
        screen.line(line)
    return Conversation(agent, Catalogue.for_language(agent.language), recorded=run_id)


def _closed(state: State) -> list[dict[str, object]]:
    still_open = [(call_id, "...") for call_id in state.history.open_calls]
    return state.messages if state.stop is not None else state.history.closed_messages(still_open)


def _last_conversation(journal: "SqliteJournal", say: Catalogue) -> str:
    for row in journal.runs():
        started = journal.read(row.run_id)[0].event
        if isinstance(started, Started) and (started.settings or {}).get("conversation"):
            return row.run_id
    raise ConfigurationError(say("there is no conversation in {path}", path=journal.path))


class Talk:
    """One conversation: the line that is typed, what is done with it, and again."""

    def __init__(self, conversation: Conversation, screen: Screen, *, quiet: bool) -> None:
        self._conversation, self._screen, self._quiet = conversation, screen, quiet
        self._say = conversation.say

    async def until_it_ends(self) -> int:
        """Reads and answers until the person has had enough, or the terminal is gone."""
        session = _session(self._conversation, self._screen)
        later = asyncio.get_running_loop().call_soon_threadsafe  # a handler may interrupt a write
        words = self._say("stopping; press Ctrl-C again to stop at once")
        reins = Reins(
            lambda: later(self._screen.line, words),
            idle=lambda: later(_end, session, KeyboardInterrupt),
            leave=lambda: later(_end, session, EOFError),
        )
        if not self._quiet:
            self._screen.line(self._say("Enter sends, Alt-Enter begins a new line, /help lists the commands"))
        try:
            with reins.taken():
                while not reins.told_to_end and (line := await self._line(session)) is not None:
                    if not await self._answer(line, reins):
                        break
        finally:
            await close_quietly(self._conversation.agent.model)
        return EXIT_CODES["interrupted"] if reins.told_to_end else 0

    async def _line(self, session: "PromptSession[str]") -> str | None:
        """What the person typed; None at the end. Ctrl-C throws the line away."""
        while True:
            try:
                return await session.prompt_async("> ", handle_sigint=False)
            except KeyboardInterrupt:
                self._screen.line(self._say("Ctrl-D or /end ends the conversation"))
            except EOFError:
                return None

    async def _answer(self, line: str, reins: Reins) -> bool:
        """Does what the line says; False where it ends the conversation."""
        word, _, rest = line.strip().partition(" ")
        if not word:
            return True
        if word.startswith("/") and "/" not in word[1:]:
            return self._command(word, rest.strip())
        await self._message(line, reins)
        return True

    def _command(self, word: str, rest: str) -> bool:
        if word == "/end":
            return False
        command = COMMANDS.get(word)
        if command is None:
            self._screen.line(self._say("there is no command {word}; /help lists them", word=word))
            return True
        for line in command.do(self._conversation, rest):
            self._screen.line(line)
        return True

    async def _message(self, text: str, reins: Reins) -> None:
        talk, trace = self._conversation, Trace(self._screen, self._say, lines=not self._quiet, text=True)
        before = talk.tokens
        try:
            run = talk.start(text, trace)
            with reins.hold(run):
                talk.outcome = await run
        except (ConfigurationError, JournalError, ResumeRefused) as error:
            if isinstance(error, ConfigurationError) and error.outcome is not None:
                talk.outcome = error.outcome
            self._screen.line(self._say("Error: {message}", message=error))
            return
        trace.end(talk.outcome, tokens_before=before)


def _session(conversation: Conversation, screen: Screen) -> "PromptSession[str]":
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.output import create_output
    except ImportError as error:
        words = conversation.say("a conversation needs the package prompt_toolkit: install brida[chat]")
        raise ConfigurationError(words) from error
    return PromptSession(
        history=_history(conversation.say, screen.line),
        completer=WordCompleter([*COMMANDS, "/end"], sentence=True),
        complete_while_typing=False,
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation="  ",
        output=create_output(stdout=sys.stderr),
    )


def _keys() -> "KeyBindings":
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def _history(say: Catalogue, tell: Callable[[str], None]) -> "History":
    """What was typed before, in a file that only its owner can read; in memory where that cannot be."""
    from platformdirs import user_state_path
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class Typed(FileHistory):
        """Lines that begin with a blank are not kept, as in a shell; nor are any on a full disk. What
        cannot be read was never typed.
        """

        def load_history_strings(self) -> Iterator[str]:
            with suppress(OSError):
                yield from super().load_history_strings()

        def store_string(self, string: str) -> None:
            if not string.startswith(" "):
                with suppress(OSError):
                    super().store_string(string)

    path: Path = user_state_path("brida") / "chat_history"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.open("ab").close()
        return Typed(str(path))
    except OSError as error:
        tell(say("what you type is not remembered: {path}: {why}", path=path, why=error.strerror or error))
        return InMemoryHistory()


def _end(session: "PromptSession[str]", how: type[BaseException]) -> None:
    """Ends the line that is being typed."""
    if session.app.is_running and not session.app.is_done:
        session.app.exit(exception=how)
