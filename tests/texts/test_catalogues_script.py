"""The script that keeps the catalogues: what it finds, and what it leaves alone."""

import gettext
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "catalogues.py"

CODE = """
def f(say, short, texts):
    say("a plain {text}", text=short(say(" or ").join(texts)))
    say.plural("{count} turn", "{count} turns", 2)
    say(f"not {texts}"); say(texts); say(); other("not this")
"""

SPANISH = {"a plain {text}": "un {text} sencillo", " or ": " o "}


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("catalogues", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


catalogues = load()


class Tree:
    """Code and catalogues of a test."""

    def __init__(self, folder: Path) -> None:
        self.source, self.locale = folder / "source", folder / "locale"
        self.source.mkdir()
        self.write(CODE)
        self.update()
        for language in ("es", "pt"):
            for text, said in SPANISH.items():
                self.change(language, f'msgid "{text}"\nmsgstr ""', f'msgid "{text}"\nmsgstr "{said}"')
            self.change(language, 'msgstr[0] ""', 'msgstr[0] "{count} turno"')
            self.change(language, 'msgstr[1] ""', 'msgstr[1] "{count} turnos"')
        self.update()

    def write(self, code: str) -> None:
        (self.source / "module.py").write_text(code, encoding="utf-8")

    def path(self, language: str) -> Path:
        return self.locale / language / "LC_MESSAGES" / "brida.po"

    def change(self, language: str, old: str, new: str) -> None:
        """Edits a .po file by hand."""
        text = self.path(language).read_text(encoding="utf-8")
        assert old in text
        self.path(language).write_text(text.replace(old, new), encoding="utf-8")

    def update(self) -> None:
        catalogues.update(self.locale, self.source)

    def problems(self) -> list[str]:
        return catalogues.problems(self.locale, self.source)

    def files(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in sorted(self.locale.rglob("brida.*"))}


@pytest.fixture
def tree(tmp_path) -> Tree:
    return Tree(tmp_path)


def test_the_catalogues_of_the_code_are_whole():
    assert catalogues.problems() == []


def test_updating_the_catalogues_of_the_code_changes_no_byte(tmp_path):
    copy = tmp_path / "locale"
    shutil.copytree(catalogues.LOCALE, copy)
    catalogues.update(copy)
    for path in sorted(copy.rglob("brida.*")):
        assert path.read_bytes() == (catalogues.LOCALE / path.relative_to(copy)).read_bytes()


def test_the_texts_are_found_also_in_calls_within_calls(tree):
    assert catalogues.texts_in_code(tree.source) == {
        "a plain {text}",
        " or ",
        ("{count} turn", "{count} turns"),
    }


def test_a_whole_catalogue_has_no_problems_and_updating_it_again_changes_no_byte(tree):
    assert tree.problems() == []
    before = tree.files()
    assert len(before) == 4
    tree.update()
    assert tree.files() == before


def test_the_compiled_catalogue_says_what_the_source_says(tree):
    said = gettext.translation("brida", tree.locale, ["es"])
    assert said.gettext("a plain {text}") == "un {text} sencillo"
    assert [said.ngettext("{count} turn", "{count} turns", count) for count in (0, 1, 2)] == [
        "{count} turnos",
        "{count} turno",
        "{count} turnos",
    ]
    assert said.gettext("unknown") == "unknown"


def test_a_text_that_is_missing_is_found_and_update_adds_it_empty(tree):
    tree.write(CODE + 'say("new")')
    assert tree.problems() == [f"{language}: not in the catalogue: 'new'" for language in ("es", "pt")]
    tree.update()
    assert tree.problems() == [f"{language}: not translated: 'new'" for language in ("es", "pt")]


def test_a_text_that_is_no_longer_said_is_found_and_update_takes_it_out(tree):
    tree.write(CODE.replace("a plain {text}", "another {text}"))
    assert "es: no longer in the code: 'a plain {text}'" in tree.problems()
    tree.update()
    assert "a plain" not in tree.path("es").read_text(encoding="utf-8")
    assert "es: not translated: 'another {text}'" in tree.problems()


@pytest.mark.parametrize("said", ["un sencillo", "un {texto} sencillo", "un {text} {more}", "un {text"])
def test_a_translation_with_other_placeholders_is_found(tree, said):
    tree.change("es", "un {text} sencillo", said)
    assert "es: other placeholders than the English text: 'a plain {text}'" in tree.problems()


def test_a_form_without_its_placeholder_is_found(tree):
    tree.change("pt", "{count} turnos", "turnos")
    assert (
        "pt: other placeholders than the English text: ('{count} turn', '{count} turns')" in tree.problems()
    )


@pytest.mark.parametrize("form", ['msgstr " o "', 'msgstr[1] "{count} turnos"'])
def test_a_text_or_a_form_that_is_not_translated_is_found(tree, form):
    tree.change("es", form, form.partition('"')[0] + '""')
    tree.update()
    assert [problem.partition(": ")[2][:14] for problem in tree.problems()] == ["not translated"]


def test_a_guess_is_found_and_stays_a_guess(tree):
    tree.change("es", 'msgid " or "', '#, fuzzy\nmsgid " or "')
    tree.update()
    assert tree.problems() == ["es: marked as a guess: ' or '"]
    assert gettext.translation("brida", tree.locale, ["es"]).gettext(" or ") == " or "


def test_a_compiled_catalogue_that_is_stale_or_not_there_is_found(tree):
    tree.change("es", "sencillo", "simple")
    tree.path("pt").with_suffix(".mo").unlink()
    assert tree.problems() == [
        "es: brida.mo is not compiled from brida.po",
        "pt: brida.po or brida.mo is not there",
    ]
    tree.update()
    assert tree.problems() == []


def test_a_catalogue_that_is_not_there_is_made(tree):
    shutil.rmtree(tree.locale)
    assert "es: brida.po or brida.mo is not there" in tree.problems()
    tree.update()
    assert [problem.partition(": ")[2][:14] for problem in tree.problems()] == ["not translated"] * 6


@pytest.mark.parametrize(
    "arguments, code, words",
    [(["check"], 0, ""), ([], 2, "scripts/catalogues.py update"), (["x"], 2, "check")],
)
def test_the_script_says_in_its_exit_code_whether_all_is_well(arguments, code, words):
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == code
    assert done.stdout == ""
    assert words in done.stderr
    assert bool(words) == bool(done.stderr)
