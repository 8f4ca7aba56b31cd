"""What click says is said in the language of the command line."""

import gettext

import click
import pytest

from brida.texts.catalogue import DOMAIN, LOCALE, install_for_command_line
from brida.texts.click_words import PLURALS, WORDS
from support.process import brida

ENGLISH = (
    "Usage", "Options", "Commands", "Positional", "Error:", "Show ", "exit", "No such", "Did you mean",
    "Missing", "Invalid", "not a valid", "not in the range", "requires", "does not take", "unexpected",
    "Got ", "Try ", "for help", "default",
)  # fmt: skip
"""Words of click's English texts. Spanish has a word in common with them: "Error:"."""

WRONG = {
    "an unknown flag": ["run", "--modle", "x"],
    "an unknown flag near to one": ["run", "--mode", "x"],
    "a flag without its value": ["run", "--model"],
    "a switch with a value": ["run", "--json=3"],
    "a word for a number": ["run", "--max-turns", "many"],
    "a word for a decimal number": ["run", "--deadline", "soon"],
    "a number out of range": ["run", "--max-turns=-1"],
    "a word for a limit": ["run", "--max-tokens-total", "many"],
    "an extra argument": ["run", "one", "two"],
    "extra arguments": ["run", "one", "two", "three"],
    "a command misspelled": ["rum"],
}


def english_in(text: str, language: str) -> list[str]:
    return [word for word in ENGLISH if word in text and not (language == "es" and word == "Error:")]


@pytest.mark.parametrize("language, usage, options", [("es", "Uso:", "Opciones:"), ("pt", "Uso:", "Opções:")])
def test_the_help_of_the_flags_is_translated(tmp_path, language, usage, options):
    ran = brida("--lang", language, "--help", cwd=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    assert english_in(ran.out, language) == []
    assert usage in ran.out
    assert options in ran.out


@pytest.mark.parametrize("locale, commands", [("es_MX.UTF-8", "Comandos:"), ("pt_BR.UTF-8", "Comandos:")])
def test_the_help_of_the_commands_is_translated(tmp_path, locale, commands):
    ran = brida("--help", cwd=tmp_path, env={"LC_ALL": locale})
    assert (ran.code, ran.err) == (0, "")
    assert english_in(ran.out, locale[:2]) == []
    assert commands in ran.out


@pytest.mark.parametrize("locale", ["es_ES.UTF-8", "pt_BR.UTF-8"])
@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_an_error_of_use_is_translated(tmp_path, locale, arguments):
    ran = brida(*arguments, cwd=tmp_path, env={"LC_ALL": locale})
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith({"es": "Error: ", "pt": "Erro: "}[locale[:2]])
    assert english_in(ran.err.replace("--json", ""), locale[:2]) == []


@pytest.fixture
def global_domain(monkeypatch):
    """Gives gettext's global domain and the language back after the test."""
    before = gettext.textdomain()
    monkeypatch.setenv("LANGUAGE", "en")
    yield
    gettext.textdomain(before)


@pytest.mark.usefixtures("global_domain")
@pytest.mark.parametrize(
    "language, given, words",
    [
        ("en", ["--size", "x"], "'x' is not one of 'small', 'large'."),
        (
            "es",
            ["--size", "x"],
            "Valor no válido para '--size': 'x' no es uno de estos valores: 'small', 'large'.",
        ),
        (
            "pt",
            ["--size", "x"],
            "Valor inválido para '--size': 'x' não é um destes valores: 'small', 'large'.",
        ),
        ("es", [], "Falta la opción '--size'. Elige entre:\n\tsmall,\n\tlarge"),
        ("pt", [], "Falta a opção '--size'. Escolha entre:\n\tsmall,\n\tlarge"),
    ],
)
def test_a_wrong_or_missing_choice_is_told_in_the_language_that_is_installed(language, given, words):
    size = click.Option(["--size"], type=click.Choice(["small", "large"]), required=True)
    install_for_command_line(language)
    with pytest.raises(click.UsageError) as caught:
        click.Command("buy", params=[size]).main(given, standalone_mode=False)
    assert words in caught.value.format_message()


@pytest.mark.parametrize("language", ["es", "pt"])
def test_every_word_of_click_that_is_listed_is_in_the_catalogue(language):
    said = gettext.translation(DOMAIN, LOCALE, [language])
    same = {text for text in WORDS if said.gettext(text) == text}
    assert same == ({"Error: {message}"} if language == "es" else set())
    assert [one for one, many in PLURALS if said.ngettext(one, many, 1) == one] == []
