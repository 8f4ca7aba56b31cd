"""Keeps the catalogues of texts: ``src/brida/texts/locale/{es,pt}/LC_MESSAGES/brida.{po,mo}``.

    python scripts/catalogues.py update   # takes the texts from the code into the .po files, compiles
    python scripts/catalogues.py check    # exit code 1, and a line for everything missing or stale

The files carry no date, no version of a tool and no line numbers, so they change only when a text does.
"""

import io
import string
import sys
from collections.abc import Iterable
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "brida"
LOCALE = SOURCE / "texts" / "locale"
LANGUAGES = {"es": "es", "pt": "pt_BR"}
KEYWORDS: dict[str, tuple[int, ...] | None] = {"say": None, "_say": None, "N_": None, "plural": (1, 2)}

PLURAL_FORMS = "nplurals=2; plural=(n != 1);"

MessageId = str | tuple[str, ...]


def texts_in_code(source: Path = SOURCE) -> set[MessageId]:
    """Every text that the code can say; a text with two forms is a pair."""
    found: set[MessageId] = set()
    for path in sorted(source.rglob("*.py")):
        with path.open("rb") as file:
            for _, text, _, _ in extract("python", file, keywords=KEYWORDS, options={"encoding": "utf-8"}):
                found.add(text)
    return {text for text in found if text and text != ("", "")}


def empty(language: str) -> Catalog:
    """A catalogue without texts. Two forms: one, and any other count; ours are never in the millions."""
    catalogue = Catalog(locale=LANGUAGES[language], fuzzy=False)
    catalogue.mime_headers = [("Plural-Forms", PLURAL_FORMS)]
    return catalogue


def read(path: Path, language: str) -> Catalog:
    """The catalogue in a .po file; an empty one where there is none."""
    if not path.is_file():
        return empty(language)
    with path.open("rb") as file:
        return read_po(file, locale=LANGUAGES[language])


def source_of(catalogue: Catalog, language: str) -> bytes:
    """The .po file of a catalogue: sorted, nothing in it but the texts."""
    clean = empty(language)
    for message in sorted(messages(catalogue), key=lambda message: str(message.id)):
        clean.add(message.id, message.string)
    buffer = io.BytesIO()
    write_po(buffer, clean, omit_header=True, width=100)
    header = (
        f'msgid ""\nmsgstr ""\n"Language: {LANGUAGES[language]}\\n"\n'
        '"Content-Type: text/plain; charset=UTF-8\\n"\n'
        f'"Plural-Forms: {PLURAL_FORMS}\\n"\n\n'
    )
    return header.encode() + buffer.getvalue().rstrip() + b"\n"


def compiled(source: bytes, language: str) -> bytes:
    """The .mo file of a .po file."""
    buffer = io.BytesIO()
    write_mo(buffer, read_po(io.BytesIO(source), locale=LANGUAGES[language]))
    return buffer.getvalue()


def messages(catalogue: Catalog) -> Iterable[Message]:
    """The texts of a catalogue, without its header."""
    return (message for message in catalogue if message.id)


def update(locale: Path = LOCALE, source: Path = SOURCE) -> None:
    """Brings the catalogues to the texts of the code: new ones empty, stale ones gone; nothing is guessed."""
    wanted = texts_in_code(source)
    for language in LANGUAGES:
        path = locale / language / "LC_MESSAGES" / "brida.po"
        old = {message.id: message.string for message in messages(read(path, language))}
        new = empty(language)
        for text in wanted:
            new.add(text, old.get(text, ("", "") if isinstance(text, tuple) else ""))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source_of(new, language))
        path.with_suffix(".mo").write_bytes(compiled(path.read_bytes(), language))


def problems(locale: Path = LOCALE, source: Path = SOURCE) -> list[str]:
    """What is wrong with the catalogues, a line each."""
    wanted = texts_in_code(source)
    found: list[str] = []
    for language in LANGUAGES:
        path = locale / language / "LC_MESSAGES" / "brida.po"
        catalogue = read(path, language)
        known = {message.id: message for message in messages(catalogue)}
        found += [
            f"{language}: not in the catalogue: {text!r}" for text in sorted(wanted - known.keys(), key=str)
        ]
        found += [
            f"{language}: no longer in the code: {text!r}" for text in sorted(known.keys() - wanted, key=str)
        ]
        for message in known.values():
            found += [f"{language}: {complaint}: {message.id!r}" for complaint in complaints(message)]
        compiled_path = path.with_suffix(".mo")
        if not path.is_file() or not compiled_path.is_file():
            found.append(f"{language}: {path.name} or {compiled_path.name} is not there")
        elif compiled_path.read_bytes() != compiled(path.read_bytes(), language):
            found.append(f"{language}: {compiled_path.name} is not compiled from {path.name}")
    return found


def complaints(message: Message) -> list[str]:
    """What is wrong with one translation."""
    said = message.string if isinstance(message.string, tuple | list) else (message.string,)
    if not all(said):
        return ["not translated"]
    ids = message.id if isinstance(message.id, tuple | list) else (message.id,)
    allowed = set.union(*(placeholders(text) for text in ids))
    needed = set.intersection(*(placeholders(text) for text in ids))
    if message.fuzzy:
        return ["marked as a guess"]
    if any(placeholders(text) - allowed or needed - placeholders(text) for text in said):
        return ["other placeholders than the English text"]
    return []


def placeholders(text: str) -> set[str]:
    """The names in the braces of a text."""
    try:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
    except ValueError:
        return {"(braces that do not close)"}


def main() -> int:
    """Runs ``update`` or ``check``."""
    match sys.argv[1:]:
        case ["update"]:
            update()
            return 0
        case ["check"]:
            found = problems()
            print("\n".join(found), file=sys.stderr, end="\n" if found else "")
            return 1 if found else 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
