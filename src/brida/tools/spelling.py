"""What a path says before anything is looked up: whether it can be one, and whether a name means secrets."""

import os
import re
import unicodedata
from collections.abc import Iterable
from fnmatch import translate
from functools import cache

from brida.core.wording import Say
from brida.tools.context import running_call
from brida.tools.output import ToolError
from brida.tools.text import short

_LONGEST_PATH = 4_096
_LONGEST_NAME = 255

_SECRET = (
    ".env*", "*.env", ".ssh", ".git", ".git-credentials", ".gnupg", ".aws", ".netrc", "_netrc", ".npmrc",
    ".pypirc", ".pgpass", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "id_rsa*",
    "id_dsa*", "id_ecdsa*", "id_ed25519*", "credentials*",
)  # fmt: skip
"""Names of files and directories that may hold secrets, in lower case."""


class PathRefused(ToolError):
    """The path leads outside, or to what is no file, or nowhere. The message is for the model."""


def parts_of(path: str | os.PathLike[str], say: Say) -> list[str]:
    """The names between the slashes. Raises :class:`PathRefused` for what cannot be a path.

    ``~`` is a name like any other. A path with half a surrogate pair is refused, so files whose names are
    not UTF-8 cannot be named.
    """
    text = os.fspath(path)
    if not text:
        raise PathRefused(say("the path is empty"))
    if "\0" in text:
        raise PathRefused(say("the path {path} holds a NUL character", path=shown(text)))
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise PathRefused(say("the path {path} is not valid text", path=shown(text))) from None
    parts = text.split("/") if os.sep == "/" else text.replace(os.sep, "/").split("/")
    if size > _LONGEST_PATH or any(len(part.encode()) > _LONGEST_NAME for part in parts):
        raise PathRefused(say("the path {path} is too long", path=shown(text)))
    return parts


def shown(path: str | os.PathLike[str]) -> str:
    """The path for a message: cut, and whole as text."""
    return short(os.fspath(path))


def is_secret(name: str) -> bool:
    """Whether a file or directory of this name may hold secrets.

    Compared as the loosest file system would: letter case, width, invisible characters, trailing dots and
    spaces and a stream's name after a colon make no difference.
    """
    plain = name.casefold()
    if not name.isascii():
        plain = unicodedata.normalize("NFKC", name).casefold()
        plain = "".join(character for character in plain if unicodedata.category(character) != "Cf")
    fits = _secret().match
    return fits(plain) is not None or fits(plain.split(":", 1)[0].rstrip(". ")) is not None


@cache
def _secret() -> re.Pattern[str]:
    """All the names as one expression: a search asks it of every file."""
    return re.compile("|".join(map(translate, _SECRET)))


def refuse_unapproved(names: Iterable[str], path: str, say: Say) -> None:
    """Raises :class:`PathRefused` where a name may mean secrets and no person said yes to this call.

    The question before the call is asked of what the path led to then; this is asked of what is opened.
    Outside a call there is nobody to ask, and nothing is refused.
    """
    call = running_call()
    if call is None or call.approved:
        return
    if secret := next((name for name in names if is_secret(name)), None):
        raise PathRefused(
            say(
                "{path} may hold secrets ({name}), and no person approved that it is used",
                path=shown(path),
                name=shown(secret),
            )
        )
