"""Keeps the catalogues of texts: ``src/brida/texts/locale/{es,pt}/LC_MESSAGES/brida.{po,mo}``.

    python scripts/catalogues.py update   # takes the texts from the code into the .po files, compiles
    python scripts/catalogues.py check    # exit code 1, and a line for everything missing or stale

The files carry no date, no version of a tool and no line numbers, so they change only when a text does.
"""

import ast
import io
import string
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "brida"
LOCALE = SOURCE / "texts" / "locale"
LANGUAGES = {"es": "es", "pt": "pt_BR"}
KEYWORDS = {"say": 1, "_say": 1, "_wrong": 1, "N_": 1, "plural": 2}
"""The functions that take a text, as their own name or as an attribute's, and how many texts they take."""

OF_CLICK = {"number_type": "stays English, as in 'integer range', so a translation may leave it out"}
"""Placeholders of click's texts that a translation may leave out, and why."""

PLURAL_FORMS = "nplurals=2; plural=(n != 1);"

MessageId = str | tuple[str, ...]


def texts_in_code(source: Path = SOURCE) -> set[MessageId]:
    """Every text that the code can say; a text with two forms is a pair.

    Read from the syntax tree, because Babel's own extraction does not look into calls within calls.
    """
    found: set[MessageId] = set()
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
            if isinstance(node, ast.Call) and (text := text_of_call(node)):
                found.add(text)
    return found


def text_of_call(call: ast.Call) -> MessageId | None:
    """The text that a call hands to the catalogue; None where it hands over none, or one that is data."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    given = [
        argument.value
        for argument in call.args[: KEYWORDS.get(name, 0)]
        if isinstance(argument, ast.Constant)
    ]
    texts = [text for text in given if isinstance(text, str) and text]
    if not texts or len(texts) != KEYWORDS[name]:
        return None
    return tuple(texts) if len(texts) > 1 else texts[0]


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
        clean.add(message.id, message.string, flags={"fuzzy"} if message.fuzzy else ())
    buffer = io.BytesIO()
    write_po(buffer, clean, omit_header=True, width=100)
    quoted = "".join(f'"{line}\\n"\n' for line in header(language))
    return f'msgid ""\nmsgstr ""\n{quoted}\n'.encode() + buffer.getvalue().rstrip() + b"\n"


def header(language: str) -> tuple[str, ...]:
    """What a catalogue says of itself: what reading it needs, and nothing that changes by itself."""
    return (
        f"Language: {LANGUAGES[language]}",
        "Content-Type: text/plain; charset=UTF-8",
        f"Plural-Forms: {PLURAL_FORMS}",
    )


def compiled(source: bytes, language: str) -> bytes:
    """The .mo file of a .po file, without its guesses and its empty entries.

    Written here because Babel puts the time and its version into each.
    """
    texts = {b"": "".join(f"{line}\n" for line in header(language)).encode()}
    for message in messages(read_po(io.BytesIO(source), locale=LANGUAGES[language])):
        said = forms(message.string)
        if all(said) and not message.fuzzy:
            texts["\0".join(forms(message.id)).encode()] = "\0".join(said).encode()
    ids = sorted(texts)
    table = 28  # bytes of the file's head; two tables of lengths and offsets follow, then the texts
    end = table + 16 * len(ids)
    places: list[int] = []
    held = b""
    for text in [*ids, *(texts[one] for one in ids)]:
        places += [len(text), end + len(held)]
        held += text + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(ids), table, table + 8 * len(ids), 0, end)
    return head + struct.pack(f"<{len(places)}I", *places) + held


def forms(text: MessageId | list[str] | None) -> tuple[str, ...]:
    """The one form or the two forms of a text."""
    return (text or "",) if text is None or isinstance(text, str) else tuple(text)


def messages(catalogue: Catalog) -> Iterable[Message]:
    """The texts of a catalogue, without its header."""
    return (message for message in catalogue if message.id)


def update(locale: Path = LOCALE, source: Path = SOURCE) -> None:
    """Brings the catalogues to the texts of the code: new ones empty, stale ones gone; nothing is guessed."""
    wanted = texts_in_code(source)
    for language in LANGUAGES:
        path = locale / language / "LC_MESSAGES" / "brida.po"
        old = {message.id: message for message in messages(read(path, language))}
        new = empty(language)
        for text in wanted:
            said = old.get(text, Message(text))
            new.add(text, said.string, flags=said.flags)
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
    said, ids = forms(message.string), forms(message.id)
    if not all(said):
        return ["not translated"]
    if message.fuzzy:
        return ["marked as a guess"]
    if len(said) != len(ids):
        return ["other forms than the English text"]
    allowed = set.union(*(placeholders(text) for text in ids))
    needed = set.intersection(*(placeholders(text) for text in ids)) - OF_CLICK.keys()
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
