"""The command ``brida``: its errors and its exit codes."""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from brida.cli.commands import build
from brida.cli.screen import Screen, silence
from brida.core.stops import Stop
from brida.errors import ConfigurationError, Damaged, JournalError, NewerRecord, ResumeRefused, RunBusy
from brida.texts.catalogue import ENGLISH, Catalogue, choose_language, install_for_command_line
from brida.texts.terminal import escape

if TYPE_CHECKING:
    pass


SHOWN: Final = 2_000
"""Characters of an error that a person is shown."""


def run_command_line(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and gives its exit code. No traceback is shown but with ``--debug``."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    screen = Screen(sys.stdout, sys.stderr)
    try:
        return _run(given, screen)
    finally:
        for stream in (sys.stdout, sys.stderr):
            _flush(stream)


def _run(given: list[str], screen: Screen) -> int:
    say = ENGLISH
    try:
        say = _catalogue(given)
        result = build(say, screen).main(given, prog_name="brida", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        return _wrong_use(error.format_message(), given, screen, say)
    except ConfigurationError as error:
        return _wrong_use(str(error), given, screen, say, error)
    except ResumeRefused as error:
        return _refused(error, given, screen, say)
    except JournalError as error:
        return _end(_stop_of(error), _words_of(error, say), given, screen)
    except (KeyboardInterrupt, click.Abort):
        return _end(Stop("interrupted"), "", given, screen)
    except Exception as error:
        if isinstance(error, BrokenPipeError):  # who read the help has read enough
            silence(sys.stdout)
            return 0
        if "--debug" in given:
            screen.raw_error(escape(traceback.format_exc(), multiline=True))
        stop = Stop("internal_error", {"error": f"{type(error).__name__}: {error}"})
        words = say(
            "a bug in brida: {error}; run again with --debug to see where", error=stop.detail["error"]
        )
        return _end(stop, words, given, screen)


def _catalogue(given: list[str]) -> Catalogue:
    flag, wanted = "--lang", _value_of("--lang", given)
    if wanted is None:
        flag, wanted = "BRIDA_LANGUAGE", os.environ.get("BRIDA_LANGUAGE") or None
    try:
        language = choose_language(wanted, os.environ)
    except ValueError as error:
        say = Catalogue.for_language(choose_language(None, os.environ))
        words = say("{flag}: {language} is not spoken here: it is en, es or pt", flag=flag, language=wanted)
        raise ConfigurationError(words) from error
    install_for_command_line(language)
    return Catalogue.for_language(language)


def _value_of(flag: str, given: list[str]) -> str | None:
    """The value of a flag that is needed before the flags are parsed."""
    value = None
    for index, argument in enumerate(given):
        if argument == "--":
            break
        if argument == flag and index + 1 < len(given):
            value = given[index + 1]
        elif argument.startswith(f"{flag}="):
            value = argument.partition("=")[2]
    return value


def _wrong_use(
    message: str,
    given: list[str],
    screen: Screen,
    say: Catalogue,
    error: ConfigurationError | None = None,
) -> int:
    """Says what is wrong; a run that had begun keeps its outcome. Lines to write are shown as lines."""
    stop = Stop("configuration_error", {"error": message})
    example = "" if error is None else error.example
    message = message.removesuffix(f"\n{example}")
    screen.line(
        say("Error: {message}", message=message if len(message) <= SHOWN else f"{message[:SHOWN]}...")
    )
    for line in example.splitlines():
        screen.line(line)
    if error is None or error.outcome is None or "--json" not in given:
        return _end(stop, "", given, screen)
    screen.json(error.outcome.to_json())
    return stop.exit_code


def _refused(error: ResumeRefused, given: list[str], screen: Screen, say: Catalogue) -> int:
    """A run that does not go on, since its agent has changed: what differs, line by line."""
    screen.line(say("the definition of the agent has changed since the run began; nothing was done"))
    differences: Any = error.stop.detail["differences"]
    for one in differences:
        screen.line(say("{what}: was {was}, is {now}", what=one["what"], was=one["was"], now=one["is"]))
    if "--json" in given:
        screen.json(error.outcome.to_json())
    return error.stop.exit_code


def _words_of(error: JournalError, say: Catalogue) -> str:
    words = say("Error: {message}", message=error)
    if type(error) is not JournalError:
        return words
    return f"{words}; " + say("--journal names another file, --no-journal keeps nothing")


def _stop_of(error: JournalError) -> Stop:
    """How a command ends that the journal keeps from doing anything."""
    kind = "configuration_error"
    if isinstance(error, RunBusy):
        kind = "busy"
    elif isinstance(error, Damaged | NewerRecord):
        kind = "journal_error"
    return Stop(kind, {"error": str(error)})


def _end(stop: Stop, words: str, given: list[str], screen: Screen) -> int:
    """An ending without a run: words for a person, and the one object where ``--json`` asks for it."""
    if words:
        screen.line(words)
    if "--json" in given:
        screen.json(ending_without_run(stop))
    return stop.exit_code


def ending_without_run(stop: Stop) -> dict[str, Any]:
    """The JSON object of a run that never began: the same fields, nothing in them."""
    lists = ("pending", "questions", "declined", "denied", "failed_calls")
    return {
        "version": 1,
        "run_id": None,
        "stop": {"kind": stop.kind, "class": stop.stop_class, "detail": dict(stop.detail)},
        "text": "",
        "output": None,
        "turns": 0,
        "requests": 0,
        "closing_requests": 0,
        "usage": None,
        "cost": None,
        "held_cost": None,
        "cache": None,
        "spending": None,
        **{name: [] for name in lists},
        "seconds": 0.0,
        "seconds_waited": 0.0,
        "model": None,
        "base_url": None,
    }


def _flush(stream: Any) -> None:
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        silence(stream)
