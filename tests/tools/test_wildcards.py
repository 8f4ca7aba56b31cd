"""Patterns of names and paths, held against git itself and against the shapes that freeze other matchers."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brida.tools.ignored import Ignored, Rules
from brida.tools.scan import Scan
from brida.tools.wildcards import alternatives, name_fits, path_fits


def _say(text: str, /, **facts: object) -> str:
    return text.format(**facts)


@pytest.mark.parametrize(
    "pattern, fitting, others",
    [
        ("*", ["a", "", ".a"], []),
        ("*.py", ["a.py", ".py"], ["a.pyc", "py"]),
        ("a*b*c", ["abc", "aXbYc", "abbcc"], ["ac", "abcX", "acb"]),
        ("?", ["a", "é", "😀"], ["", "ab"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "x"]),
        ("[!a-c]x", ["dx"], ["ax", "x"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[c-a]", ["c"], ["a", "b"]),
        ("[[:digit:]x]", ["7", "x"], ["a", ":"]),
        ("\\*", ["*"], ["a"]),
        ("[\\]]", ["]"], ["\\"]),
        ("[a", [], ["[a", "a"]),
        ("a\\", [], ["a", "a\\"]),
        ("*.py[co]", ["a.pyc"], ["a.py", "c"]),
        ("aa*aa", ["aaaa", "aaXaa"], ["aaa"]),
    ],
)  # fmt: skip
def test_a_name_fits_a_pattern_or_not(pattern: str, fitting: list[str], others: list[str]) -> None:
    fits = name_fits(pattern)
    assert [name for name in fitting + others if fits(name)] == fitting


@pytest.mark.parametrize(
    "pattern, fitting, others",
    [
        ("a/b", ["a/b"], ["x/a/b", "a/b/c", "a"]),
        ("**/b", ["b", "a/b", "a/x/b"], ["a/b/c"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a/c"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/b/x"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "a.py"]),
        ("**", ["a", "a/b"], []),
    ],
)
def test_a_path_fits_a_pattern_or_not(pattern: str, fitting: list[str], others: list[str]) -> None:
    fits = path_fits(pattern)
    assert [path for path in fitting + others if fits(path.split("/"))] == fitting


@pytest.mark.parametrize(
    "pattern", ["*a" * 60 + "[bx]", "a*" * 100 + "b", "?*" * 100 + "b", "**/" * 60 + "b"]
)
def test_no_pattern_takes_more_than_its_length_times_that_of_the_name(pattern: str) -> None:
    begun = time.process_time()
    assert not path_fits(pattern)(["a" * 255] * 40)
    assert not name_fits(pattern.replace("/", ""))("a" * 255)
    assert time.process_time() - begun < 10  # another matcher takes longer than anybody waits


@pytest.mark.parametrize(
    "pattern, meant",
    [
        ("*.{py,md}", ["*.py", "*.md"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"]),
        ("{a}", ["{a}"]),
        ("{a,b", ["{a,b"]),
        ("{a,b}" * 6, ["{a,b}" * 6]),
        ("{,x}", ["", "x"]),
    ],
)
def test_braces_are_alternatives(pattern: str, meant: list[str]) -> None:
    assert set(alternatives(pattern)) == set(meant)


@given(st.text(alphabet="ab*?[]!-\\^:/", max_size=12), st.text(alphabet="ab-]!", max_size=6))
def test_any_pattern_is_read_without_an_error(pattern: str, name: str) -> None:
    assert name_fits(pattern)(name) in (True, False)
    assert path_fits(pattern)([name, name]) in (True, False)


@given(st.binary(max_size=80))
def test_any_file_of_rules_is_read_without_an_error(data: bytes) -> None:
    assert Rules.read(data, 0).verdict(["a", "b"], directory=False) in (True, False, None)


def test_the_directory_of_git_itself_is_always_left_out() -> None:
    assert Ignored()([".git"], directory=True)
    assert not Ignored()([".github"], directory=True)


# --- against git ------------------------------------------------------------------------------------

_needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git to compare with")

_NAMES = ["a", "b", "ab", "a.c", "x y", "é", "#h", "!n", "d "]
_names = st.sampled_from(_NAMES)
_PIECES = "a b ab a.c é * a* *b *.c ? ?? [ab] [!a] [^b]* ** \\a [[:alpha:]] [a- *a* a.* [/] x?y d? a\\ b"
_pieces = st.sampled_from([*_PIECES.split(" "), "x y", "x\\ y", "d\\ "])
_rules = st.builds(
    lambda negated, start, parts, end, tail: negated + start + "/".join(parts) + end + tail,
    st.sampled_from(["", "", "", "!", "\\!", "#", "\\#"]),
    st.sampled_from(["", "", "/"]),
    st.lists(_pieces, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", "/**", "/*"]),
    st.sampled_from(["", "", "", " ", "  ", "\r", "\t"]),
)
_files_of_rules = st.lists(_rules | st.sampled_from(["", "#n", "/", "!", "*", "!*/", "!/a"]), max_size=6).map(
    "\n".join
)


@pytest.fixture(scope="module")
def repository() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        subprocess.run(["git", "init", "-q", place], check=True, env=_environment())
        yield root


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent",
            "XDG_CONFIG_HOME": "/nonexistent"}  # fmt: skip


def _make(root: Path, tree: set[tuple[str, ...]]) -> None:
    for names in tree:
        place = root.joinpath(*names)
        with_directories = all(not parent.is_file() for parent in place.parents)
        if with_directories and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("")


def _seen_by_git(root: Path) -> set[str]:
    """The files that are not ignored, as git lists them."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--others", "--exclude-standard"]
    listed = subprocess.run(
        command, check=True, capture_output=True, env=_environment(),
    ).stdout  # fmt: skip
    return {os.fsdecode(name) for name in listed.split(b"\0") if name}


def _seen_by_us(root: Path) -> set[str]:
    scan = Scan(root, ".", _say)
    return {entry.path for entry in scan.entries(below=True) if entry.kind == "file"}


@_needs_git
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sets(st.lists(_names, min_size=1, max_size=3).map(tuple), min_size=1, max_size=12),
    _files_of_rules,
    _files_of_rules,
)
def test_what_is_ignored_is_what_git_ignores(
    repository: Path, tree: set[tuple[str, ...]], rules: str, rules_below: str
) -> None:
    for old in repository.iterdir():
        if old.name != ".git":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    _make(repository, tree)
    (repository / ".gitignore").write_bytes(rules.encode())
    if (repository / "a").is_dir():
        (repository / "a" / ".gitignore").write_bytes(rules_below.encode())
    assert _seen_by_us(repository) == _seen_by_git(repository)
