"""Hostile text on a terminal: nothing hides, nothing moves, nothing passes for something else."""

import json
import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.texts.terminal import MARKS_IN_A_ROW, escape, for_encoding, is_visible, rows, shorten

ANY_CHARACTER = st.integers(0, sys.maxunicode).map(chr)
"""Halves of surrogate pairs too, which Hypothesis leaves out by itself."""

HOSTILE = st.sampled_from(
    '\\"\x1b\r\n\t\x07\x7f\x9b\u200b\u202e\u2066\u0301\u20dd\ufe0f\ud800\u4e2d\U000e0041xuUn0a '
)
TEXT = st.lists(HOSTILE | ANY_CHARACTER).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)

ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", re.DOTALL)


def read_back(shown: str) -> str:
    """The JSON text behind an escaped one: the escapes that JSON would not have written are undone."""

    def undone(found: re.Match[str]) -> str:
        code = int(found[0][2:], 16) if len(found[0]) > 2 else 0
        return chr(code) if code >= 0x20 else found[0]

    return ESCAPE.sub(undone, shown)


@given(TEXT, st.booleans())
def test_nothing_is_left_that_does_not_show_itself(text, multiline):
    shown = escape(text, multiline=multiline)
    passing = "\n\ufe0e\ufe0f" if multiline else ""
    assert [one for one in shown if not is_visible(one) and one not in passing] == []


@given(TEXT)
def test_escaping_twice_changes_nothing_more(text):
    assert escape(escape(text)) == escape(text)


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_plain_text_stays_as_it_is(text):
    assert escape(text) == text


@given(JSON)
def test_what_is_shown_of_json_can_be_read_back_so_two_values_never_show_the_same_characters(value):
    text = json.dumps(value, ensure_ascii=False)
    assert read_back(escape(text)) == text


@given(JSON, JSON)
def test_two_json_texts_that_differ_are_shown_differently(one, other):
    texts = [json.dumps(value, ensure_ascii=False) for value in (one, other)]
    assert (escape(texts[0]) == escape(texts[1])) == (texts[0] == texts[1])


def test_an_escape_that_somebody_wrote_is_told_from_a_real_one_in_json():
    real, written = (escape(json.dumps(text)) for text in ("\u200b", "\\u200b"))
    assert (real, written) == (r'"\u200b"', r'"\\u200b"')
    assert escape(json.dumps("\x9b", ensure_ascii=False)) == r'"\x9b"'


@pytest.mark.parametrize(
    "character",
    [
        *map(chr, range(0x20)),
        *map(chr, range(0x7F, 0xA1)),
        "\u00ad",  # soft hyphen
        "\u034f",  # combining grapheme joiner
        "\u061c",  # Arabic letter mark
        "\u115f\u1160\u3164\uffa0",  # Hangul fillers
        "\u17b4\u17b5",  # Khmer vowels that are not written
        "\u180b\u180c\u180d\u180e\u180f",  # Mongolian selectors and separator
        "\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f",
        "\u3000",
        "\u200b\u200c\u200d\u200e\u200f",
        "\u2028\u2029",  # separators of lines and paragraphs
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",  # directions
        "\u2060\u2061\u2062\u2063\u2064\u206a\u206f",
        "\u2800",  # braille without dots
        "\u2d7f\U0001107f",  # joiners of consonants and numbers
        "\u303f",  # ideographic half fill space
        "\ufe00\ufe0e\ufe0f\U000e0100\U000e01ef",  # variation selectors
        "\ufeff",  # zero width no-break space
        "\ufff9\ufffa\ufffb\ufffc",  # interlinear annotation, object replacement
        "\U00013441\U00013442",  # blank hieroglyphs
        "\U00016fe4",  # Khitan filler
        "\U0001bc9d\U0001bca0",  # shorthand selectors and format
        "\U0001d159\U0001d173",  # a note without a head, beams
        "\U000e0001\U000e0020\U000e007f",  # tags
        "\ue000\U000f0000\U0010fffd",  # private use
        "\u0378\ufffe\uffff\U0010ffff",  # unassigned, no characters
        "\ud800\udbff\udc00\udfff",  # halves of surrogate pairs
    ],
    ids=ascii,
)
def test_what_hides_moves_or_reorders_is_escaped(character):
    assert not any(is_visible(one) for one in character)
    shown = escape(f"a{character}b")
    assert shown.isascii()
    assert len(shown) >= 2 + 2 * len(character)


@pytest.mark.parametrize(
    "text",
    [
        "¿Cuánto cuesta? São 4,50 €",
        "مرحبا بالعالم",
        "שָׁלוֹם",
        "हिन्दी में लिखा",
        "ภาษาไทยที่นี่",
        "བོད་སྐད་",
        "中文，日本語「テスト」、한국어",
        unicodedata.normalize("NFD", "한국어 á ñ ộ パ"),
        "👍🏽 🇧🇷 ✓ → ½ ☕",
        "\ufffd",
    ],
)
def test_letters_of_every_script_and_emoji_pass(text):
    assert escape(text) == text


@pytest.mark.parametrize("mark", ["\u0301", "\u20dd", "\u0336"])
def test_marks_pass_on_a_letter_and_are_counted(mark):
    allowed = "e" + mark * MARKS_IN_A_ROW
    assert escape(allowed) == allowed
    assert escape(allowed + mark + "x") == f"{allowed}\\u{ord(mark):04x}x"


@pytest.mark.parametrize(
    "text, shown",
    [
        ("\u0338x", r"\u0338x"),  # it would strike through what stands before the text
        ('"\u0338', r'"\u0338'),
        ("1\u20e3", r"1\u20e3"),
        (" \u0301", r" \u0301"),
        ("\x1b\u0301\u0301", r"\x1b\u0301\u0301"),
        ("a\u200b\u0301", r"a\u200b\u0301"),
        ("a\u1039", r"a\u1039"),  # a stacker of Myanmar: nothing would be seen of it here
        ("a\u17d2", r"a\u17d2"),
        ("a\u1161\u11a8", r"a\u1161\u11a8"),  # vowel and final of Hangul, of no width
        ("\u1100" + "\u1161" * 5, "\u1100" + "\u1161" * 4 + r"\u1161"),
        ("\u0915" + "\u093f" * 5, "\u0915" + "\u093f" * 4 + r"\u093f"),
    ],
)
def test_a_mark_passes_on_a_letter_of_its_script_alone(text, shown):
    assert escape(text) == shown


def test_a_piece_of_a_stream_may_begin_with_the_mark_of_a_letter_in_the_piece_before():
    assert escape("\u0301 end", multiline=True) == "\u0301 end"
    assert escape("\u0301" * 5, multiline=True) == "\u0301" * 4 + r"\u0301"
    assert escape("\n\u0301", multiline=True) == "\n\\u0301"


@pytest.mark.parametrize(
    "text", ["⚠\ufe0f", "❤\ufe0f!", "↔\ufe0e", "1\ufe0f\u20e3 2\ufe0f\u20e3", "#\u20e3", "\ufe0f x"]
)
def test_in_prose_what_belongs_to_an_emoji_passes_and_on_one_line_it_is_shown(text):
    assert escape(text, multiline=True) == text
    assert r"\ufe0" in escape(text) or r"\u20e3" in escape(text)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a\ufe0f", r"a\ufe0f"),
        ("a\u20e3", "a\u20e3"),
        ('"\ufe0f', r'"\ufe0f'),
        ("\n\ufe0f", "\n\\ufe0f"),
        ("⚠\u20e3", r"⚠\u20e3"),
        ("⚠\U000e0100", r"⚠\U000e0100"),
        ("⚠" + "\ufe0f" * 5, "⚠" + "\ufe0f" * 4 + r"\ufe0f"),
        ("⚠\u200b\ufe0f", r"⚠\u200b\ufe0f"),
    ],
)
def test_in_prose_a_selector_that_belongs_to_nothing_is_shown(text, shown):
    assert escape(text, multiline=True) == shown


def test_of_the_control_characters_only_the_line_feed_passes_and_only_where_lines_are_wanted():
    assert escape("a\r\nb\tc\vd\x85e", multiline=True) == "a\\r\nb\\tc\\x0bd\\x85e"
    assert escape("a\r\nb") == r"a\r\nb"


def columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


@given(TEXT, st.integers(-2, 60))
def test_a_shortened_line_keeps_to_the_columns_and_a_cut_is_shown(text, limit):
    line = escape(text)
    cut = shorten(line, limit)
    assert columns(cut) <= max(0, limit)
    assert cut == line or cut.endswith("..."[: max(0, limit)])
    assert line.startswith(cut.removesuffix("..."[: max(0, limit)]))
    assert columns(line) > limit or cut == line


@given(JSON, st.integers(3, 60))
def test_a_cut_never_falls_within_an_escape_of_json(value, limit):
    line = escape(json.dumps(value, ensure_ascii=False))
    cut = shorten(line, limit)
    if cut != line:
        kept = len(cut) - 3
        assert all(not found.start() < kept < found.end() for found in ESCAPE.finditer(line))


@given(TEXT, st.integers(3, 60))
def test_a_cut_never_falls_within_an_escape_of_a_text(text, limit):
    pieces = [escape(one) for one in text if one != "\\" and not unicodedata.category(one).startswith("M")]
    line = "".join(pieces)
    cut = shorten(line, limit)
    whole = ["".join(pieces[:count]) for count in range(len(pieces) + 1)]
    assert cut == line or cut.removesuffix("...") in whole


@pytest.mark.parametrize(
    "line, limit, cut",
    [
        ("hello", 5, "hello"),
        ("hello", 4, "h..."),
        ("hello", 3, "..."),
        ("hello", 2, ".."),
        ("hello", 0, ""),
        (r"ab\x1bcd", 7, "ab..."),
        (r"ab\x1bcdef", 9, r"ab\x1b..."),
        (r"a\\x1b23", 6, "a..."),  # nobody knows here whether it is \\ or \x1b that must stay whole
        (r"a\\\\\\\\b", 7, "a..."),
        (r"a\U000e0041b", 12, r"a\U000e0041b"),
        (r"a\U000e0041b", 11, "a..."),
        ("中中中中", 8, "中中中中"),
        ("中中中中", 7, "中中..."),
    ],
)
def test_where_a_line_is_cut(line, limit, cut):
    assert shorten(line, limit) == cut


@given(TEXT, st.integers(10, 60))
def test_rows_hold_the_whole_line_and_keep_to_the_columns(text, most):
    line = escape(text)
    pieces = rows(line, most)
    assert "".join(pieces) == line
    assert all(columns(piece) <= most for piece in pieces)
    assert all(pieces) or pieces == [""]


@given(st.text(st.sampled_from("e中\u0301\u0915\u093f\u1100\u1161x")), st.integers(-1, 12))
def test_a_row_never_begins_with_the_mark_of_the_row_before(text, most):
    line = escape(text)
    pieces = rows(line, most)
    assert "".join(pieces) == line
    assert [piece for piece in pieces[1:] if unicodedata.category(piece[0]) in ("Mn", "Mc")] == []
    assert not any("\u1160" <= piece[0] <= "\u11ff" for piece in pieces[1:])


@pytest.mark.parametrize(
    "line, most, pieces",
    [
        ("", 5, [""]),
        ("abcde", 5, ["abcde"]),
        ("abcdef", 5, ["abcde", "f"]),
        ("abc中d", 4, ["abc", "中d"]),
        ("abcde\u0301f", 5, ["abcd", "e\u0301f"]),
        ("e\u0301e\u0301", 1, ["e\u0301", "e\u0301"]),
        ("中", 1, ["中"]),
    ],
)
def test_where_a_line_is_broken_into_rows(line, most, pieces):
    assert rows(line, most) == pieces


@given(TEXT, st.sampled_from(["ascii", "latin-1", "cp1252", "utf-8", "no such encoding", "", "a\0b", "hex"]))
def test_a_text_can_be_written_in_every_encoding(text, encoding):
    shown = for_encoding(text, encoding)
    known = encoding if encoding in ("ascii", "latin-1", "cp1252", "utf-8") else "ascii"
    assert shown.encode(known).decode(known) == shown
    assert [one for one in text if one.isascii()] == [one for one in text if one in shown and one.isascii()]


@pytest.mark.parametrize(
    "encoding, shown",
    [
        ("ascii", r"\xe9 \u20ac \u4e2d \U0001f44d \ud800"),
        ("latin-1", r"é \u20ac \u4e2d \U0001f44d \ud800"),
        ("cp1252", r"é € \u4e2d \U0001f44d \ud800"),
        ("utf-8", "é € 中 👍 \\ud800"),
        ("klingon", r"\xe9 \u20ac \u4e2d \U0001f44d \ud800"),
    ],
)
def test_what_an_encoding_cannot_hold_is_escaped(encoding, shown):
    assert for_encoding("é € 中 👍 \ud800", encoding) == shown
