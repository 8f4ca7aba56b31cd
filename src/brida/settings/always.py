"""Writing a rule into the user's own file of settings, where a person says "always"."""

import os
from pathlib import Path
from typing import Any, cast

from brida.core.wording import Say
from brida.errors import ConfigurationError
from brida.settings.files import user_path
from brida.settings.trust import replace_file


class Always:
    """Adds ``allow`` rules to the user's file. Its comments and its order stay as they are.

    Methods raise :class:`ConfigurationError` where the file cannot be read or written; it is then as it
    was.
    """

    def __init__(self, say: Say, path: Path | None = None) -> None:
        self._say = say
        self.path = user_path() if path is None else path

    def preview(self, tool: str) -> str:
        """What the file will hold."""
        import tomlkit

        document = self._document()
        policy = cast("Any", document.setdefault("policy", tomlkit.table()))
        rules = policy.setdefault("allow", tomlkit.array())
        if tool not in rules:
            rules.append(tool)
        return tomlkit.dumps(document)

    def write(self, tool: str) -> None:
        """Writes it, whole or not at all."""
        text = self.preview(tool)
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self.path, text.encode())
        except OSError as error:
            raise self._unusable(error) from error

    def _document(self) -> "Any":
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        if not self.path.is_absolute():
            raise ConfigurationError(self._say("no rule can be kept: set HOME to your home directory"))
        try:
            return tomlkit.parse(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return tomlkit.document()
        except (OSError, UnicodeDecodeError, TOMLKitError) as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> ConfigurationError:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        return ConfigurationError(self._say("{file} cannot be changed: {why}", file=self.path, why=why))
