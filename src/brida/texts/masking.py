"""Taking secrets out of texts: the values of environment variables that look secret, or were declared so.

What enters a run is masked once, before anything learns it, so the model, the journal and a resumed
request see the same bytes. What stands in place of a secret names the variable and never changes.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

SHORTEST: Final = 8
"""Characters that a value has at least, unless it was declared secret: shorter ones occur by chance."""

_WORDS: Final = frozenset(
    (
        *(
            "KEY",
            "KEYS",
            "APIKEY",
            "TOKEN",
            "TOKENS",
            "SECRET",
            "SECRETS",
            "PASSWORD",
            "PASSWD",
            "PASSPHRASE",
        ),
        *("PASS", "PWD", "CREDENTIAL", "CREDENTIALS", "AUTH", "AUTHORIZATION", "PRIVATE", "DSN", "COOKIE"),
        *("PAT", "BEARER", "SIGNATURE", "SALT", "WEBHOOK"),
    )
)
_HARMLESS: Final = frozenset(("PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY", "GPG_KEY"))
_PLAIN: Final = re.compile(r"(?:true|false|yes|no|on|off|none|null|[\d.,:_-]+)", re.IGNORECASE)


class Mask:
    """Takes the values of some variables out of texts. Called with a text, it gives the masked one.

    Each occurrence becomes ``[secret NAME]``: of the value itself, and of its JSON, URL and base64 forms.
    A text without any is given back as it is. Masking twice is masking once.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.names = tuple(sorted(secrets))
        self._names_of: dict[str, str] = {}
        for name, value in sorted(secrets.items()):
            for form in _forms(value):
                self._names_of.setdefault(form, name)
        longest_first = sorted(self._names_of, key=lambda form: (-len(form), form))
        kept = [f"[secret {name}]" for name in self.names]  # what was masked already stays as it is
        parts = map(re.escape, [*kept, *longest_first])
        self._pattern = re.compile("|".join(parts)) if longest_first else None

    @classmethod
    def of(cls, environ: Mapping[str, str], declared: Iterable[str] = ()) -> "Mask":
        """The mask for an environment. ``declared``: names of variables that are secret whatever they look
        like; those that are not set hold nothing.
        """
        secrets = {name: environ[name] for name in declared if environ.get(name)}
        for name, value in environ.items():
            if _looks_secret(name, value):
                secrets.setdefault(name, value)
            elif (password := _password_in(value)) is not None:
                secrets.setdefault(name, password)
        return cls(secrets)

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        return text if self._pattern is None else self._pattern.sub(self._replace, text)

    def blocks(self, content: Sequence[Mapping[str, object]]) -> tuple[Mapping[str, object], ...]:
        """Blocks of a tool's result with their texts masked; what is no text stays as it is."""
        return tuple(
            {**block, "text": self(text)} if isinstance(text := block.get("text"), str) else block
            for block in content
        )

    def __repr__(self) -> str:
        return f"Mask({', '.join(self.names)})"

    def _replace(self, found: re.Match[str]) -> str:
        name = self._names_of.get(found[0])
        return found[0] if name is None else f"[secret {name}]"


def _looks_secret(name: str, value: str) -> bool:
    if name in _HARMLESS or len(value) < SHORTEST or _PLAIN.fullmatch(value):
        return False
    parts = re.split(r"[^A-Z0-9]+", name.upper())
    return not _WORDS.isdisjoint(parts) and not _is_path(value)


def _is_path(value: str) -> bool:
    if not value.startswith(("/", "~", ".")) and ":\\" not in value[:3]:
        return False
    try:
        return Path(value).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False


def _password_in(value: str) -> str | None:
    """The password of a URL such as ``scheme://user:password@host``."""
    if "://" not in value or "@" not in value:
        return None
    try:
        password = urlsplit(value).password
    except ValueError:
        return None
    return password if password and len(password) >= SHORTEST else None


def _forms(value: str) -> set[str]:
    """How a value may be written: plain, without blanks around it, in JSON, in a URL, in base64."""
    data = value.encode("utf-8", "surrogateescape")
    plain = {value, value.strip(), unquote(value)}
    written = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    quoted = {quote(data), quote(data, safe="")}
    coded = {base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode().rstrip("=")}
    coded |= {form.rstrip("=") for form in coded}
    return {
        form for form in plain | written | quoted | coded if len(form) >= min(SHORTEST, len(value)) and form
    }
