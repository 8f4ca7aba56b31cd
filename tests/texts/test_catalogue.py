"""Choosing a language, and saying texts, counts and numbers in it."""

import gettext
import string

import pytest
from babel.messages.pofile import read_po

from brida.texts.catalogue import DOMAIN, ENGLISH, LANGUAGES, LOCALE, N_, Catalogue, choose_language
from brida.texts.endings import ENDINGS, explain

SPANISH = Catalogue.for_language("es")
PORTUGUESE = Catalogue.for_language("pt")


class Fixed(gettext.NullTranslations):
    """Translations that say one thing."""

    def __init__(self, said: str) -> None:
        super().__init__()
        self._said = said

    def gettext(self, message: str) -> str:
        return self._said

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self._said


def texts() -> list[tuple[str, ...]]:
    """Every text of the catalogues, in its one form or its two."""
    with (LOCALE / "es" / "LC_MESSAGES" / f"{DOMAIN}.po").open("rb") as file:
        ids = [message.id for message in read_po(file) if message.id]
    return [(text,) if isinstance(text, str) else tuple(text) for text in ids]


TEXTS = texts()


def facts(*forms: str) -> dict[str, object]:
    """A fact for every placeholder."""
    return {name: 7 for text in forms for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize(
    "wanted, environ, language",
    [
        # the flag goes before every variable, and takes the forms in which regions are written
        ("es", {}, "es"),
        ("pt-BR", {}, "pt"),
        ("pt_BR.UTF-8", {}, "pt"),
        ("es_419", {}, "es"),
        ("EN", {"LC_ALL": "pt_BR.UTF-8"}, "en"),
        ("es", {"LC_ALL": "C", "LANGUAGE": "pt"}, "es"),
        # LC_ALL, LC_MESSAGES, LANG: the first that is set
        (None, {"LC_ALL": "es_MX.UTF-8", "LC_MESSAGES": "pt_BR", "LANG": "en_US"}, "es"),
        (None, {"LC_MESSAGES": "pt_BR.UTF-8", "LANG": "es_ES"}, "pt"),
        (None, {"LANG": "es_ES@euro"}, "es"),
        (None, {"LANG": "es"}, "es"),
        (None, {"LC_ALL": "", "LC_MESSAGES": "", "LANG": "pt_PT"}, "pt"),
        (None, {"LC_CTYPE": "es_ES.UTF-8"}, "en"),
        # LANGUAGE goes before them, in its order, leaving out what is not spoken here
        (None, {"LANG": "en_US.UTF-8", "LANGUAGE": "pt_BR:es"}, "pt"),
        (None, {"LC_ALL": "en_US.UTF-8", "LANGUAGE": "fr:de:es_AR:pt"}, "es"),
        (None, {"LANG": "es_ES.UTF-8", "LANGUAGE": "fr"}, "es"),
        (None, {"LANG": "es_ES.UTF-8", "LANGUAGE": ""}, "es"),
        # unless the locale is C, or none
        (None, {"LC_ALL": "C", "LANGUAGE": "es"}, "en"),
        (None, {"LC_ALL": "C.UTF-8", "LANGUAGE": "es"}, "en"),
        (None, {"LC_ALL": "POSIX", "LANG": "es_ES", "LANGUAGE": "pt"}, "en"),
        (None, {"LANGUAGE": "es"}, "en"),
        (None, {}, "en"),
        # a language that is not spoken here, or nonsense
        (None, {"LANG": "fr_FR.UTF-8"}, "en"),
        (None, {"LANG": "ja_JP.eucJP", "LANGUAGE": "ja"}, "en"),
        (None, {"LANG": "español"}, "en"),
        (None, {"LANG": "::__--.."}, "en"),
    ],
)
def test_the_language_is_the_one_asked_for_else_that_of_the_locale(wanted, environ, language):
    assert choose_language(wanted, environ) == language


@pytest.mark.parametrize("wanted", ["fr", "", "español", "e s", "C", "english"])
def test_a_language_that_is_asked_for_and_not_spoken_is_an_error(wanted):
    with pytest.raises(ValueError, match="one of en, es, pt"):
        choose_language(wanted, {"LANG": "es_ES"})


@pytest.mark.parametrize("language", ["fr", "pt_BR", "", "../es"])
def test_there_is_no_catalogue_of_another_language(language):
    with pytest.raises(ValueError, match="one of en, es, pt"):
        Catalogue.for_language(language)


def test_a_text_is_said_in_the_language_with_its_facts():
    text = "the model asks for {call}"
    assert ENGLISH(text, call="f({})") == "the model asks for f({})"
    assert SPANISH(text, call="f({})") == "el modelo solicita f({})"
    assert PORTUGUESE(text, call="f({})") == "o modelo requisita f({})"


def test_a_text_that_no_catalogue_has_is_said_in_english():
    assert SPANISH("never {said} before", said="heard") == "never heard before"


def test_marking_a_text_changes_nothing():
    assert N_("turn limit") == "turn limit"


@pytest.mark.parametrize(
    "say, number, decimal, large",
    [
        (ENGLISH, "1,834", "4.1", "1,234,567.89"),
        (SPANISH, "1.834", "4,1", "1.234.567,89"),
        (PORTUGUESE, "1.834", "4,1", "1.234.567,89"),
    ],
)
def test_numbers_are_parted_as_the_language_has_it(say, number, decimal, large):
    assert say.number(1834) == number
    assert say.number(7) == "7"
    assert say.decimal(4.12, 1) == decimal
    assert say.decimal(1234567.891, 2) == large


@pytest.mark.parametrize(
    "say, none, one, two",
    [
        (ENGLISH, "0 turns of tool calls", "1 turn of tool calls", "2 turns of tool calls"),
        (
            SPANISH,
            "0 turnos de llamadas a herramientas",
            "1 turno de llamadas a herramientas",
            "2 turnos de llamadas a herramientas",
        ),
        (
            PORTUGUESE,
            "0 turnos de chamadas de ferramenta",
            "1 turno de chamadas de ferramenta",
            "2 turnos de chamadas de ferramenta",
        ),
    ],
)
def test_a_count_chooses_the_form(say, none, one, two):
    one_form, many_form = "{count} turn of tool calls", "{count} turns of tool calls"
    assert [say.plural(one_form, many_form, count) for count in (0, 1, 2)] == [none, one, two]


def test_a_fact_named_count_goes_before_the_count():
    assert ENGLISH.plural("{count} thing", "{count} things", 1834, count="1,834") == "1,834 things"


@pytest.mark.parametrize("said", ["{", "}", "{other}", "{0}", "{call.name}", "{call!x}", "{call:%}"])
def test_a_translation_with_broken_braces_falls_back_to_english(said):
    say = Catalogue("es", Fixed(said))
    assert say("the model asks for {call}", call="f") == "the model asks for f"
    assert say.plural("{call} once", "{call} often", 1, call="f") == "f once"
    assert say.plural("{call} once", "{call} often", 2, call="f") == "f often"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_fills_every_text(language):
    say = Catalogue.for_language(language)
    assert len(TEXTS) > 200
    for forms in TEXTS:
        given = facts(*forms)
        for count in (0, 1, 2):
            said = (
                say(forms[0], **given) if len(forms) == 1 else say.plural(forms[0], forms[1], count, **given)
            )
            assert said
            assert not set("{}") & set(said)


@pytest.mark.parametrize("say", [SPANISH, PORTUGUESE])
def test_no_text_falls_back_to_english(say):
    same = {one for one, *_ in TEXTS if say(one, **facts(one)) == ENGLISH(one, **facts(one))}
    only_facts = {"{number} token", "{field}: {problem}", "(4 x max_turns + 14)", "{tool} ({impact})"}
    only_facts |= {"{place}: {error}", "{run_id}: {error}", "--edit: {problems}", "{path}: {runs}"}
    names = {"Python", "extra", "ok", "on", "off", "terminal", "tokens"}
    assert same - {"Error: {message}", "no", *names} == only_facts


@pytest.mark.parametrize("say", [SPANISH, PORTUGUESE])
@pytest.mark.parametrize("kind", ENDINGS)
def test_every_ending_is_told_in_the_language(say, kind):
    detail = {"limit": 8, "used": 8, "calls": [{"tool": "get_time", "arguments": "{}"}]}
    told = explain(say, kind, detail)
    assert told != explain(ENGLISH, kind, detail)
    assert "get_time({})" in told or kind != "no_progress"


@pytest.mark.parametrize(
    "language, turns, requests, task, once",
    [
        (
            "es",
            "2 turnos de llamadas a herramientas",
            "en 3 peticiones al modelo",
            "Lee la primera línea de README.md, y luego dime qué hora es",
            "permitir una vez",
        ),
        (
            "pt",
            "2 turnos de chamadas de ferramenta",
            "em 3 requisições ao modelo",
            "Leia a primeira linha do README.md, e então me diga que horas são",
            "permitir uma vez",
        ),
    ],
)
def test_the_agreed_words_are_the_ones_that_are_said(language, turns, requests, task, once):
    say = Catalogue.for_language(language)
    assert say.plural("{count} turn of tool calls", "{count} turns of tool calls", 2) == turns
    assert say.plural("over {count} model request", "over {count} model requests", 3) == requests
    assert say("Read the first line of README.md, then tell me what time it is") == task
    assert say("[turn {number}] {text}", number=1, text="x") == "[turno 1] x"
    assert say("[Enter] allow once") == f"[Enter] {once}"
    assert say("n decline (n REASON tells the model why)").startswith("n ")
    assert "(n MOTIVO " in say("n decline (n REASON tells the model why)")


@pytest.mark.parametrize(
    "say, number", [(ENGLISH, "3,750,000"), (SPANISH, "3.750.000"), (PORTUGUESE, "3.750.000")]
)
def test_the_thousands_of_a_text_are_parted_as_the_language_does(say, number):
    assert number in say("it is larger than {most:,} bytes", most=3_750_000)
