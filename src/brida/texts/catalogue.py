"""English, Spanish and Portuguese, through gettext catalogues.

The English text at the call site is the key: ``say("the model asks for {call}", call=...)``. The
catalogues lie in ``locale/`` as ``.po`` sources with their compiled ``.mo``; ``scripts/catalogues.py``
keeps them. Nothing is read before the first text is needed.
"""

import gettext
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

DOMAIN: Final = "brida"
LOCALE: Final = Path(__file__).parent / "locale"
LANGUAGES: Final = ("en", "es", "pt")
_DECIMAL_COMMA: Final = ("es", "pt")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Says texts in one language. Made by :meth:`for_language`."""

    language: str
    _translations: gettext.NullTranslations = field(repr=False)

    @staticmethod
    def for_language(language: str) -> "Catalogue":
        """The catalogue of ``"en"``, ``"es"`` or ``"pt"``; any other raises ``ValueError``."""
        if language not in LANGUAGES:
            raise ValueError(
                f"language: {language!r} is not spoken here; it is one of {', '.join(LANGUAGES)}"
            )
        return _load(language)

    def __call__(self, text: str, /, **facts: object) -> str:
        """The text in this language, its braces filled with the facts."""
        return self._fill(self._translations.gettext(text), text, facts)

    def plural(self, one: str, many: str, count: int, /, **facts: object) -> str:
        """The text that fits ``count``, which fills ``{count}`` unless a fact of that name is given."""
        english = one if count == 1 else many
        return self._fill(self._translations.ngettext(one, many, count), english, {"count": count, **facts})

    def number(self, value: int) -> str:
        """A whole number with its thousands parted: 1,834 in English, 1.834 in Spanish and Portuguese."""
        return self._points(f"{value:,}")

    def decimal(self, value: float, digits: int) -> str:
        """A number with so many digits after the point, or the comma: 4.1 or 4,1."""
        return self._points(f"{value:,.{digits}f}")

    def _fill(self, text: str, english: str, facts: Mapping[str, object]) -> str:
        """A translation whose braces are wrong must not stop a run: then the English text stands in."""
        if self.language in _DECIMAL_COMMA and ":,}" in text:
            parted = {name: _Parted(value) for name, value in facts.items() if type(value) is int}
            facts = {**facts, **parted}
        try:
            return text.format(**facts)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError):
            return english.format(**facts)

    def _points(self, english: str) -> str:
        if self.language not in _DECIMAL_COMMA:
            return english
        return english.translate(str.maketrans(",.", ".,"))


@cache
def _load(language: str) -> Catalogue:
    return Catalogue(language, gettext.translation(DOMAIN, LOCALE, [language], fallback=True))


class _Parted(int):
    """A number whose thousands a text with ``{...:,}`` parts by points."""

    def __format__(self, form: str, /) -> str:
        shown = super().__format__(form)
        return shown.replace(",", ".") if form == "," else shown


ENGLISH: Final = Catalogue("en", gettext.NullTranslations())


def N_(text: str) -> str:
    """Marks a text for translation where it is data; gives it back as it is."""
    return text


def choose_language(wanted: str | None, environ: Mapping[str, str]) -> str:
    """The language to speak: the one ``wanted``, else that of the locale, else English.

    ``wanted`` may carry a region (``pt-BR``, ``es_419``); a language that is not spoken here raises
    ``ValueError``. The locale is read as POSIX and gettext have it: ``LC_ALL``, ``LC_MESSAGES``,
    ``LANG``, the first that is set; ``LANGUAGE`` goes before it unless that locale is ``C``.
    """
    if wanted is not None:
        language = _base(wanted)
        if language not in LANGUAGES:
            raise ValueError(f"{wanted!r} is not spoken here; it is one of {', '.join(LANGUAGES)}")
        return language
    locale = next((environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environ.get(name)), "")
    if _base(locale) in ("", "c", "posix"):
        return "en"
    listed = [*environ.get("LANGUAGE", "").split(":"), locale]
    return next((_base(name) for name in listed if _base(name) in LANGUAGES), "en")


def _base(locale: str) -> str:
    return locale.replace("-", "_").partition(".")[0].partition("@")[0].partition("_")[0].strip().lower()


def install_for_command_line(language: str) -> None:
    """Makes click, which asks gettext's global domain, speak the language. Changes ``LANGUAGE``."""
    gettext.bindtextdomain(DOMAIN, str(LOCALE))
    gettext.textdomain(DOMAIN)
    os.environ["LANGUAGE"] = language
