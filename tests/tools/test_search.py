"""Searching: the lines that hold a text, all of them and no others, whatever the files are."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brida.core.wording import english
from brida.tools import ToolError, search
from brida.tools.builtin import builtin_tools
from brida.tools.context import CallContext, call_context
from brida.tools.spelling import is_secret


def _search(root: Path, text: str, *arguments: str, **options: bool) -> list[str]:
    return str(builtin_tools(root)["search_text"](text, *arguments, **options)).split("\n")


def test_lines_come_with_path_and_number(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.py").write_text("x\n\tneedle (1)\nneedle needle\r\nno\nlast needle")
    (tmp_path / "a.txt").write_text("needle\n")
    assert _search(tmp_path, "needle") == [
        "a.txt:1: needle",
        "sub/b.py:2: \tneedle (1)",
        "sub/b.py:3: needle needle",
        "sub/b.py:5: last needle",
    ]
    assert _search(tmp_path, "needle", "sub/b.py", "*")[1:] == _search(tmp_path, "needle", "sub")[1:]
    assert _search(tmp_path, "needle", ".", "*.txt") == ["a.txt:1: needle"]
    assert _search(tmp_path, "NEEDLE") == ["(no line holds NEEDLE)"]


def test_a_literal_is_no_expression(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("f(x)[0].*\nfxx0\n")
    assert _search(tmp_path, "f(x)[0].*") == ["a:1: f(x)[0].*"]


def test_case_is_ignored_as_unicode_folds_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("Straße\nÑANDÚ\nnothing\nSTRASSE\n")
    assert _search(tmp_path, "strasse", ignore_case=True) == ["a:1: Straße", "a:4: STRASSE"]
    assert _search(tmp_path, "ñandú", ignore_case=True) == ["a:2: ÑANDÚ"]


def test_an_expression_is_held_against_each_line_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("def one():\r\n    Def two(): pass\n\n\n")
    assert _search(tmp_path, r"^def\s+(\w+)\(\):$", regex=True) == ["a:1: def one():"]
    assert _search(tmp_path, r"\bdef", regex=True, ignore_case=True) == [
        "a:1: def one():", "a:2:     Def two(): pass",
    ]  # fmt: skip
    assert _search(tmp_path, "^$", regex=True) == ["a:3: ", "a:4: "]


@pytest.mark.parametrize("expression", ["(a+)+$", "(a|a)*$", "(.*a){20}$", "((a{0,30}){0,30})$"])
def test_an_expression_that_freezes_others_is_answered(expression: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a" * 5_000 + "b\n")
    begun = time.process_time()
    assert _search(tmp_path, expression, regex=True)
    assert time.process_time() - begun < 20  # others take years


@pytest.mark.parametrize("expression", ["(a", "[", "a{1,2000}", "(?<=a)b", r"(a)\1", "((a{999}){999}){999}"])
def test_what_is_no_expression_is_refused_with_the_reason(expression: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="is not a regular expression of RE2: ") as refused:
        _search(tmp_path, expression, regex=True)
    assert "b'" not in str(refused.value)


def test_without_the_package_an_expression_is_refused_and_a_literal_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("needle")
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(ToolError, match="regular expressions are not available here"):
        _search(tmp_path, "n", regex=True)
    assert _search(tmp_path, "needle") == ["a:1: needle"]


@pytest.mark.parametrize(
    "text, reason",
    [("", "is empty"), ("a\nb", "holds a line end"), ("\ud83d", "is not valid text"), ("x" * 1_001, "1,001")],
)
def test_a_text_that_cannot_be_looked_for_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=reason):
        _search(tmp_path, text)


def test_binary_files_secrets_and_links_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"needle\0")
    (tmp_path / ".env").write_text("needle")
    (tmp_path / "a").write_text("needle")
    (tmp_path / "link").symlink_to("a")
    assert _search(tmp_path, "needle") == [
        "a:1: needle", "[left out: 1 binary, 1 that may hold secrets, 1 behind a link]",
    ]  # fmt: skip


def test_bytes_that_are_not_utf_8_are_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\xf1o needle\n\xff\n")
    for options in ({}, {"ignore_case": True}, {"regex": True}):
        assert _search(tmp_path, "needle", **options) == ["a:1: a\ufffdo needle"]


def test_a_long_line_is_cut_around_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("é" * 5_000 + "-needle" + "é" * 5_000)
    for options in ({}, {"ignore_case": True}, {"regex": True}):
        (line,) = _search(tmp_path, "needle", **options)
        assert line.startswith("a:1: …é")
        assert line.endswith("é…")
        assert "é-needleé" in line
        assert "\ufffd" not in line
        assert len(line.encode()) < 230


def test_control_characters_do_not_break_the_lines(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("needle\rb.txt:1: fake\x1b[2J\u2028x\n".encode())
    assert _search(tmp_path, "needle") == ["a:1: needle\\x0db.txt:1: fake\\x1b[2J\\u2028x"]


def test_many_finds_are_cut_and_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("needle\n" * 500)
    shown = _search(tmp_path, "needle")
    assert shown[99] == "a:100: needle"
    assert shown[100:] == ["[100 lines shown; there are more: look for a longer text or in fewer files]"]
    with call_context(CallContext("c", "search_text", "r", english, result_limit=1_124)):
        assert len(_search(tmp_path, "needle")) < 10


def test_exactly_as_many_finds_as_are_shown_are_all(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("needle\n" * 100)
    assert len(_search(tmp_path, "needle")) == 100


@pytest.mark.parametrize("options", [{}, {"ignore_case": True}, {"regex": True}], ids=str)
def test_a_line_longer_than_memory_allows_is_searched_in_pieces(
    options: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("_CHUNK", 64), ("_LONGEST_LINE", 100), ("_OVERLAP", 16), ("_PROBE", 64)):
        monkeypatch.setattr(search, name, size)
    for before in range(40, 180):
        (tmp_path / "a").write_text("first\n" + "x" * before + "needle" + "x" * 300 + "\nlast needle\n")
        assert [line.split(" ")[0] for line in _search(tmp_path, "needle", **options)] == ["a:2:", "a:3:"]


def test_a_line_that_is_searched_in_pieces_comes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("_CHUNK", 64), ("_LONGEST_LINE", 100), ("_OVERLAP", 16), ("_PROBE", 64)):
        monkeypatch.setattr(search, name, size)
    (tmp_path / "a").write_text("needle " * 200)
    assert len(_search(tmp_path, "needle")) == 1


_line = st.text(alphabet=st.sampled_from("ab\u00e9\U0001f600 \t\rB"), max_size=6)
_files = st.dictionaries(
    st.sampled_from(["a", "b/c", "b/d", ".env", "b/.git/x", "key.pem"]),
    st.lists(_line, max_size=8).map("\n".join),
)


def _naive(root: Path, files: dict[str, str], text: str, *, fold: bool) -> list[str]:
    found = []
    for path in sorted(files):
        if any(is_secret(name) for name in path.split("/")):
            continue
        for number, line in enumerate(files[path].split("\n"), 1):
            inside = text.casefold() in line.casefold() if fold else text in line
            if inside:
                shown = "\t".join(part.replace("\r", "\\x0d") for part in line.removesuffix("\r").split("\t"))
                found.append(f"{path}:{number}: {shown}")
    return found


@settings(deadline=None)
@given(_files, st.text(alphabet="ab\u00e9B", min_size=1, max_size=3), st.booleans(), st.integers(1, 20))
def test_a_search_finds_what_a_naive_one_finds(
    files: dict[str, str], text: str, fold: bool, chunk: int
) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_CHUNK", chunk)
        patch.setattr(search, "_PROBE", chunk)
        for path, content in files.items():
            (Path(place) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(place) / path).write_bytes(content.encode())
        shown = _search(Path(place), text, ignore_case=fold)
    shown = [line for line in shown if not line.startswith(("[left out", "(no line"))]
    assert shown == _naive(Path(place), files, text, fold=fold)


_parts = st.sampled_from(["a", "b", "sub", ".env", ".git", "id_rsa", "out", "..", "."])


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(_parts, min_size=1, max_size=3), st.sampled_from(["file", "link", "up"])),
        max_size=8,
    ),
    st.lists(_parts, max_size=3),
    st.sampled_from(["*", "**", "a*", "*/b", "**/*"]),
)
def test_nothing_outside_and_no_secret_is_ever_shown(
    tree: list[tuple[list[str], str]], start: list[str], pattern: str
) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "project"
        root.mkdir()
        (Path(place) / "a").write_text("OUTSIDE")
        (Path(place) / "b").mkdir()
        (Path(place) / "b" / "a").write_text("OUTSIDE")
        for names, kind in tree:
            _put(root, [name for name in names if name not in ("..", ".")], kind)
        tools = builtin_tools(root)
        with call_context(CallContext("c", "t", "r", english)):
            for name, given_ in (("list_files", (start, pattern)), ("search_text", ("E", start, pattern))):
                arguments = ["/".join(one) or "." if isinstance(one, list) else one for one in given_]
                try:
                    text = tools[name](*arguments)
                except ToolError:
                    continue
                assert "OUTSIDE" not in text
                for line in text.split("\n"):
                    if not line.startswith(("[", "(")):
                        path = line.removesuffix(" (a link)").partition(":")[0]
                        assert not any(is_secret(part) for part in path.split("/"))
                        assert os.path.realpath(root / path).startswith(os.path.realpath(root))


def _put(root: Path, names: list[str], kind: str) -> None:
    place = root.joinpath(*names)
    if not names or os.path.lexists(place):
        return
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.realpath(place.parent).startswith(os.path.realpath(root)):
            return
        if kind == "file":
            place.write_text("INSIDE")
        else:
            place.symlink_to("../" * len(names) + "b" if kind == "up" else ".env")
    except OSError:
        return


# --- a hundred thousand files -----------------------------------------------------------------------

FILES = 100_000


_MEASURED = """
import resource, sys
from pathlib import Path
from brida.tools.builtin import builtin_tools

search_text = builtin_tools(Path(sys.argv[1]))["search_text"]
search_text("nothing", "000/000")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(search_text("needle"))
unit = 1 if sys.platform != "darwin" else 1024
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // unit)
"""


@pytest.fixture(scope="module")
def forest() -> Iterator[Path]:
    """A tree of 100,000 small files; the last of them holds the needle."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        for number in range(FILES // 100):
            folder = root / f"{number // 100:03}" / f"{number % 100:03}"
            folder.mkdir(parents=True)
            directory = os.open(folder, os.O_RDONLY)
            for name in range(100):
                file = os.open(f"{name:03}.txt", os.O_WRONLY | os.O_CREAT, dir_fd=directory)
                os.write(file, b"line one\nline two\n")
                os.close(file)
            os.close(directory)
        (root / "zzz.txt").write_text("line\nneedle\n")
        yield root


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_search_through_a_hundred_thousand_files_keeps_its_memory_flat(forest: Path) -> None:
    command = [sys.executable, "-c", _MEASURED, str(forest)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    shown, kilobytes = told.splitlines()
    assert shown == "zzz.txt:2: needle"
    assert int(kilobytes) < 32 * 1024


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_search_through_a_hundred_thousand_files_can_be_interrupted(
    forest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled, seen = threading.Event(), 0
    looked = search._hits

    def counted(*arguments: object) -> object:
        nonlocal seen
        seen += 1
        if seen == 1_000:
            cancelled.set()
        return looked(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(search, "_hits", counted)
    call = CallContext("c", "search_text", "r", english, cancelled=cancelled)
    with call_context(call), pytest.raises(ToolError, match="the call was cancelled"):
        _search(forest, "needle")
    assert seen == 1_000
