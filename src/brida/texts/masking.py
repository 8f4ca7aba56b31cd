"""Taking secrets out of texts: the values of environment variables that look secret, or were declared so.

What enters a run is masked once, before anything learns it, so the model, the journal and a resumed
request see the same bytes. What stands in place of a secret names the variable and never changes.

A name looks secret where one of its parts is a word such as ``KEY`` or ``TOKEN``, or ends with one that
means nothing else, as in ``PGPASSWORD``; not where its last part tells that the value is about a secret,
as in ``KEY_FILE``. Values that are short, plain words, numbers or paths that exist are taken for no secret.
"""

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NoReturn, cast
from urllib.parse import quote, quote_plus, unquote

SHORTEST: Final = 8
"""Characters that a value has at least, unless it was declared secret: shorter ones occur by chance."""

TOKEN_ALONE: Final = 20
"""Characters from which the user of an address without a password is taken for a token."""

_SECRET: Final = re.compile(
    r"KEYS?|TOKENS|SECRETS|PASSWORDS|PASS|PWD|CREDENTIALS|CREDS|AUTH|AUTHORIZATION|PRIVATE|DSN|COOKIE|PAT"
    r"|BEARER|SIGNATURE|SALT|WEBHOOK|APIKEYS|[A-Z]*(PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIAL|APIKEY)"
)
_ABOUT: Final = re.compile(
    r"ALGORITHM|COUNT|DIR|DIRECTORY|ENABLED|EXPIRY|FILE|FORMAT|HELPER|HOST|LENGTH|METHOD|MODE|NAME|PATH|PORT"
    r"|PROVIDER|REALM|SIZE|SOCK|SOCKET|TIMEOUT|TTL|TYPE|USER|USERNAME|VERSION"
)
_HARMLESS: Final = frozenset(("PWD", "OLDPWD", "GPG_KEY", "XAUTHORITY", "BRIDA_SECRETS"))
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PLAIN: Final = re.compile(
    r"true|false|yes|no|on|off|none|null|enabled|disabled|required|optional|default|undefined|unlimited"
    r"|password|changeme|postgres|localhost|[\d.,:_+-]+",
    re.IGNORECASE,
)
_IN_ADDRESSES: Final = (
    re.compile(r"://[^\s:/?#@]*:([^\s/?#]+)@"),
    re.compile(r"://[^\s:/?#@]*:(?!\d{1,5}[/?#])([^\s@]+)@"),  # a password with / that nobody quoted
    re.compile(rf"://([^\s:/?#@]{{{TOKEN_ALONE},}})@"),
)
_FURTHER: Final = 1 << 18
_CHUNK: Final = re.compile(r"[^\s-]\S{23,}")
_UNSENDABLE: Final = re.compile("[\x00\ud800-\udfff]")


class Mask:
    """Takes the values of some variables out of texts. Called with a text, it gives the masked one.

    Each occurrence becomes ``[secret NAME]``: of the value itself, and of how JSON, Python, an address or
    base64 (alone or within something longer) writes it. The longest value counts first. A text without
    any is given back as it is; masking twice is masking once. A part of a secret is not recognized, but
    for the long lines of one of several lines, such as a key in PEM.

    The values leave it by no road: not by ``repr``, nor by ``pickle``, which it refuses.
    """

    __slots__ = ("_marks", "_names", "_secrets", "longest", "names")

    def __init__(self, secrets: Iterable[tuple[str, str]]) -> None:
        """``secrets``: the name and the value of each; a name may have several values."""
        pairs = sorted({(name, value) for name, value in secrets if value.strip()})
        self.names = tuple(dict.fromkeys(name for name, _ in pairs))
        marks = sorted({_mark(name) for name in self.names})
        self._marks = re.compile(f"({'|'.join(map(re.escape, marks))})") if marks else None
        self._names: dict[str, str] = {}
        for name, value in pairs:
            for form in _forms(value):
                for part in self._between_marks(form):
                    self._names.setdefault(part, name)
        forms = sorted(self._names, key=lambda form: (-len(form), form))
        self.longest = len(forms[0]) if forms else 0
        self._secrets = re.compile(_any_of(forms)) if forms else None

    @classmethod
    def of(cls, environ: Mapping[str, str], declared: Iterable[str] = ()) -> "Mask":
        """The mask for an environment: of the variables that look secret, and of passwords in addresses.

        ``declared``: names of variables that are secret whatever they look like; those that are not set, or
        are blank, hold nothing.
        """
        return cls(_secrets_in(environ, frozenset(declared)))

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        if self._secrets is None or self._marks is None or self._secrets.search(text) is None:
            return text
        pieces = self._marks.split(text)  # every other one is a mark, which stays
        pieces[::2] = [self._secrets.sub(self._replace, piece) for piece in pieces[::2]]
        return "".join(pieces)

    def beginning(self, text: str, size: int) -> str:
        """The text without secrets in what can be among its first ``size`` characters.

        For what is cut to that size next: a secret is whole before the cut alone, and what lies far behind
        it need not be looked at.
        """
        end = size + _FURTHER
        if len(text) <= end:
            return self(text)
        start = self(text[:end])
        return start + text[end:] if len(start) >= size + self.longest else self(text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where secrets begin and end in the text. None is longer than :attr:`longest`, in characters."""
        return [] if self._secrets is None else [found.span() for found in self._secrets.finditer(text)]

    def blocks(self, content: Sequence[Mapping[str, object]]) -> tuple[Mapping[str, object], ...]:
        """Blocks of a tool's result with their texts masked; the data of an image stays as it is."""
        return tuple(cast("Mapping[str, object]", self._masked(block)) for block in content)

    def __repr__(self) -> str:
        return f"Mask({', '.join(self.names)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a mask holds secrets, so it is not pickled")

    def __copy__(self) -> "Mask":
        return self

    def __deepcopy__(self, _memo: object) -> "Mask":
        return self

    def _masked(self, value: object) -> object:
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self._masked(item) for item in value]
        if isinstance(value, Mapping) and value.get("type") != "base64":
            return {key: item if key == "type" else self._masked(item) for key, item in value.items()}
        return value

    def _between_marks(self, form: str) -> list[str]:
        """The form; where it has marks in it, which are never looked into, what stands between them."""
        assert self._marks is not None
        parts = self._marks.split(form)[::2]
        return parts if len(parts) == 1 else [part for part in parts if len(part) >= SHORTEST]

    def _replace(self, found: re.Match[str]) -> str:
        return _mark(self._names[found[0]])


def _mark(name: str) -> str:
    """What stands in place of a secret. No bracket of a name is in it, so no two make a third."""
    return f"[secret {re.sub(r'[^A-Za-z0-9_.-]', '_', name)}]"


def _any_of(forms: Sequence[str], depth: int = 4) -> str:
    """A pattern of any of the forms, the longest first; their first characters are looked at together."""
    if depth == 0 or len(forms) == 1:
        return "|".join(map(re.escape, forms))
    rests: dict[str, list[str]] = {}
    for form in forms:
        rests.setdefault(form[:1], []).append(form[1:])
    return "|".join(f"{re.escape(first)}(?:{_any_of(rest, depth - 1)})" for first, rest in rests.items())


def _secrets_in(environ: Mapping[str, str], declared: frozenset[str]) -> Iterator[tuple[str, str]]:
    for name, value in environ.items():
        if name in declared or _looks_secret(name, value):
            yield name, value
        if "://" in value and "@" in value:
            found = (one for pattern in _IN_ADDRESSES for one in pattern.findall(value))
            yield from ((name, one) for one in found if len(one) >= SHORTEST)


def _looks_secret(name: str, value: str) -> bool:
    parts = [part.upper() for part in _PARTS.findall(name)]
    if name in _HARMLESS or not any(map(_SECRET.fullmatch, parts)) or _ABOUT.fullmatch(parts[-1]):
        return False
    return len(value) >= SHORTEST and not _PLAIN.fullmatch(value.strip()) and not _is_path(value)


def _is_path(value: str) -> bool:
    try:
        return os.path.exists(os.path.expanduser(value))
    except (OSError, ValueError):
        return False


def _forms(value: str) -> set[str]:
    """How a value may be written."""
    plain = {value, value.strip(), unquote(value).strip() or value}
    if len(value.splitlines()) > 1:
        plain |= {chunk[0] for chunk in _CHUNK.finditer(value)}
    forms = set(plain)
    for text in plain:
        once = {_UNSENDABLE.sub("\ufffd", text), repr(text)[1:-1], *_in_json(text)}
        forms |= once | {twice for form in once for twice in _in_json(form)}
        data = text.encode("utf-8", "surrogateescape" if _is_escaped(text) else "replace")
        forms |= set(_quoted(data))
        forms |= {coded for coded in _in_base64(data) if len(coded) >= SHORTEST}
    return forms


def _is_escaped(text: str) -> bool:
    """Whether the half surrogate pairs of the text stand for bytes that were no UTF-8."""
    return not re.search("[\ud800-\udc7f\udd00-\udfff]", text)


def _in_json(text: str) -> Iterator[str]:
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]


def _quoted(data: bytes) -> Iterator[str]:
    for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)


def _in_base64(data: bytes) -> Iterator[str]:
    """How base64 writes the bytes: alone, and what is always the same of them within something longer."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield from (encode(data).decode(), encode(data).decode().rstrip("="))
        for before in range(3):
            whole = encode(bytes(before) + data).decode().rstrip("=")
            first = -(-before * 8 // 6)
            last = (before + len(data)) * 8 // 6
            yield whole[first:last]
