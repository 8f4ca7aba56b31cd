"""Which projects' files a person trusts, as they were then: kept in the user's state directory."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from brida.core.wording import Say
from brida.errors import ConfigurationError
from brida.settings.files import SettingsFile
from brida.settings.merge import TrustState

VERSION: Final = 1


def store_path() -> Path:
    """Where the list of trusted files is kept."""
    import platformdirs

    return platformdirs.user_state_path("brida") / "trusted.json"


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The list of trusted files: the real path of each, and the digest of what it said.

    Written whole or not at all, readable by its owner alone; two processes that change it at once both
    succeed. Every method raises :class:`ConfigurationError` where the list cannot be used.
    """

    path: Path
    say: Say

    @classmethod
    def of_user(cls, say: Say) -> "TrustStore":
        """The user's own list."""
        return cls(store_path(), say)

    def state(self, file: SettingsFile) -> TrustState:
        """Whether the file is trusted as it is now."""
        known = self.entries().get(os.path.realpath(file.path))
        if known is None:
            return "never"
        return "trusted" if known == file.digest else "changed"

    def entries(self) -> Mapping[str, str]:
        """The digest of each trusted file by its real path.

        There are none where nobody knows the user's home: a project could have a folder of that name.
        """
        if not self.path.is_absolute():
            return {}
        try:
            data = self.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise self._unusable(error) from error
        try:
            kept = json.loads(data)
            trusted = kept["trusted"] if kept["version"] == VERSION else None
        except (ValueError, TypeError, KeyError, RecursionError):
            trusted = None
        if not isinstance(trusted, dict) or not all(isinstance(one, str) for one in trusted.values()):
            raise ConfigurationError(
                self.say(
                    "{file} is no list of trusted files that brida has written; delete it", file=self.path
                )
            )
        return trusted

    def trust(self, file: SettingsFile) -> None:
        """Trusts the file as it was read: its digest is that of ``file``, whatever is on disk by now."""
        with self._changing() as entries:
            entries[os.path.realpath(file.path)] = file.digest

    def forget(self, path: Path) -> bool:
        """Trusts the file of this path no longer; False where it was not trusted."""
        with self._changing() as entries:
            return entries.pop(os.path.realpath(path), None) is not None

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, str]]:
        """The entries, to be changed within the block while no other process changes them."""
        if not self.path.is_absolute():
            raise ConfigurationError(self.say("nothing can be trusted: set HOME to your home directory"))
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self.path.with_suffix(".lock")):
                entries = dict(self.entries())
                yield entries
                content = json.dumps({"version": VERSION, "trusted": entries}, indent=2, sort_keys=True)
                replace_file(self.path, content.encode() + b"\n")
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> ConfigurationError:
        why = os.strerror(error.errno) if error.errno else error
        return ConfigurationError(
            self.say("the list of trusted files {file} cannot be used: {why}", file=self.path, why=why)
        )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds the lock file; waits while another process does. The end of a process frees it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with contextlib.suppress(ModuleNotFoundError):  # without fcntl the last writer wins
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Writes the file whole or not at all, readable by its owner alone. Raises ``OSError``."""
    fresh = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise
