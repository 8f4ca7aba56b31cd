"""The tools that look around: what they show, what they leave out, and that nothing leads them outside."""

import os
import socket
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from brida.core.wording import english
from brida.tools import ToolError, folders, paths, portable, scan
from brida.tools.builtin import builtin_tools
from brida.tools.context import CallContext, call_context

pytestmark = pytest.mark.skipif(os.name == "nt", reason="made of links, pipes and permission bits")


@pytest.fixture(params=["walk", "portable"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project with a file outside beside it, for either way of opening files."""
    if request.param == "portable":
        monkeypatch.setattr(paths, "_way", lambda: portable)
    made = tmp_path / "project"
    made.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("OUTSIDE needle")
    return made


def _tree(root: Path, files: Mapping[str, str | bytes]) -> None:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content if isinstance(content, bytes) else content.encode())


def _list(root: Path, *arguments: str) -> list[str]:
    return str(builtin_tools(root)["list_files"](*arguments)).split("\n")


def _search(root: Path, text: str, *arguments: str, **options: bool) -> list[str]:
    return str(builtin_tools(root)["search_text"](text, *arguments, **options)).split("\n")


def _info(root: Path, path: str) -> list[str]:
    return str(builtin_tools(root)["file_info"](path)).split("\n")


# --- list_files -------------------------------------------------------------------------------------


def test_a_list_has_what_is_in_the_directory_in_order(root: Path) -> None:
    _tree(root, {"b.py": "", "a.txt": "", "src/deep/c.py": "", "é": ""})
    assert _list(root) == ["a.txt", "b.py", "src/", "é"]
    assert _list(root, "src") == ["src/deep/"]
    assert _list(root, "./src/../src/deep/") == ["src/deep/c.py"]
    assert _list(root, str(root / "src")) == ["src/deep/"]


def test_paths_are_told_from_the_root_however_links_lead_there(root: Path) -> None:
    _tree(root, {"other/f": "needle", "sub/deep/x": ""})
    (root / "sub" / "deep" / "absolute").symlink_to(root / "other")
    (root / "sub" / "relative").symlink_to("../../project/other")
    for path in (
        "sub/deep/absolute",
        "sub/relative",
        "sub/deep/../relative/",
        str(root / "sub" / "relative"),
    ):
        assert _list(root, path) == ["other/f"]
        assert _search(root, "needle", path) == ["other/f:1: needle"]
        assert _info(root, path + "/f")[0] == "other/f"


def test_a_pattern_looks_in_the_directories_below_too(root: Path) -> None:
    _tree(root, {"b.py": "", "a.txt": "", "src/deep/c.py": "", "src/d.py": "", "deep.py/x": ""})
    assert _list(root, ".", "*.py") == ["b.py", "deep.py/", "src/d.py", "src/deep/c.py"]
    assert _list(root, ".", "src/*.py") == ["src/d.py"]
    assert _list(root, "src", "*/*.py") == ["src/deep/c.py"]
    assert _list(root, ".", "**/c.py") == ["src/deep/c.py"]
    assert _list(root, ".", "{a,c}.{py,txt}") == ["a.txt", "src/deep/c.py"]
    assert len(_list(root, ".", "**")) == 8


def test_a_list_of_a_file_is_the_file(root: Path) -> None:
    _tree(root, {"src/a.txt": ""})
    assert _list(root, "src/a.txt") == ["src/a.txt"]


def test_nothing_to_list_says_so(root: Path) -> None:
    (root / "empty").mkdir()
    assert _list(root, "empty") == ["(nothing in the directory empty)"]
    assert _list(root, ".", "*.py") == ["(nothing fits *.py in .)"]
    with pytest.raises(ToolError, match="there is no file or directory nothing"):
        _list(root, "nothing")
    with pytest.raises(ToolError, match="pattern should have from 1 to 200"):
        _list(root, ".", "")


def test_a_list_says_what_was_left_out(root: Path) -> None:
    _tree(root, {".gitignore": "*.log\nbuild/\n", "a.log": "", "build/x/y": "", ".env": "", "keys/id_rsa": "",
                 ".git/config": "", "a": ""})  # fmt: skip
    os.mkfifo(root / "pipe")
    (root / "out").symlink_to("../outside")
    (root / "harmless").symlink_to(".env")
    (root / "in").symlink_to("a")
    (root / "dir").symlink_to("keys")
    (root / "dangling").symlink_to("missing")
    assert _list(root) == [
        ".gitignore", "a", "dir (a link)", "in (a link)", "keys/",
        "[left out: 3 ignored, 2 that may hold secrets, 2 outside the project directory,"
        " 1 neither file nor directory]",
    ]  # fmt: skip


def test_a_long_list_is_cut_and_says_so(root: Path) -> None:
    _tree(root, {f"f{number:04}": "" for number in range(600)})
    shown = _list(root)
    assert len(shown) == 501
    assert shown[499] == "f0499"
    assert shown[-1] == "[500 shown; there are more: a longer path or pattern shows fewer]"
    with call_context(CallContext("c", "list_files", "r", english, result_limit=1_124)):
        few = _list(root)
    assert 10 < len(few) < 20
    assert "there are more" in few[-1]


def test_a_directory_too_large_to_sort_at_once_is_listed_in_parts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "AT_ONCE", 3)
    _tree(root, {f"f{number}": "" for number in range(10)})
    assert sorted(_list(root)) == [f"f{number}" for number in range(10)]


def test_an_ignored_directory_that_is_asked_for_by_name_is_shown(root: Path) -> None:
    _tree(
        root, {".gitignore": "/build\n*.log\n", "build/x.log": "", "build/.gitignore": "y\n", "build/y": ""}
    )
    assert _list(root) == [".gitignore", "[left out: 1 ignored]"]
    assert _list(root, "build") == ["build/.gitignore", "build/x.log", "[left out: 1 ignored]"]


def test_rules_above_the_start_count(root: Path) -> None:
    _tree(root, {".gitignore": "*.log\n/src/x\n", "src/a.log": "", "src/x": "", "src/sub/x": "",
                 "src/.gitignore": "!keep.log\n", "src/keep.log": ""})  # fmt: skip
    assert _list(root, "src") == ["src/.gitignore", "src/keep.log", "src/sub/", "[left out: 2 ignored]"]
    assert _list(root, "src/sub") == ["src/sub/x"]


def test_rules_are_read_from_no_link_and_no_pipe(root: Path) -> None:
    _tree(root, {"rules": "a\n", "a": "", "sub/a": ""})
    (root / ".gitignore").symlink_to("rules")
    os.mkfifo(root / "sub" / ".gitignore")
    assert _list(root, ".", "a") == ["a", "sub/a", "[left out: 1 neither file nor directory]"]


def test_hostile_names_do_not_break_the_lines(root: Path) -> None:
    for name in (b"a\nb", b"c\x1b[2Jd", b"e\xff", "f\u202eg".encode()):
        with open(os.fsencode(root) + b"/" + name, "wb") as file:
            file.write(b"needle")
    shown = ["a\\x0ab", "c\\x1b[2Jd", "e\\udcff", "f\\u202eg"]
    assert _list(root) == shown
    assert _search(root, "needle") == [f"{name}:1: needle" for name in shown]


def test_secrets_are_listed_only_where_the_path_itself_was_approved(root: Path) -> None:
    _tree(root, {".ssh/id_rsa": "needle", "a": ""})
    tools = builtin_tools(root)
    with call_context(CallContext("c", "list_files", "r", english)):
        with pytest.raises(ToolError, match="no person approved"):
            tools["list_files"](".ssh")
        with pytest.raises(ToolError, match="no person approved"):
            tools["search_text"]("needle", ".ssh")
    with call_context(CallContext("c", "list_files", "r", english, approved=True)):
        assert _list(root, ".ssh") == [".ssh/id_rsa"]
        assert _search(root, "needle", ".ssh") == [".ssh/id_rsa:1: needle"]
        assert _list(root, ".", "**") == ["a", "[left out: 1 that may hold secrets]"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read anything")
def test_a_directory_without_permission_is_said_and_the_rest_is_shown(root: Path) -> None:
    _tree(root, {"closed/x": "", "open/x": "needle", "file": "needle"})
    (root / "closed").chmod(0)
    (root / "file").chmod(0)
    try:
        assert _list(root, ".", "x") == ["open/x", "[left out: 1 that cannot be read]"]
        assert _search(root, "needle") == ["open/x:1: needle", "[left out: 2 that cannot be read]"]
    finally:
        (root / "closed").chmod(0o700)


def test_what_cannot_be_read_is_said_and_not_fatal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _tree(root, {"closed/x": "needle", "file": "needle", "open": "needle"})
    for kind in (folders.Folder, folders.PortableFolder):
        going_in, opening = kind.folder, kind.open

        def folder(self: folders.Folder, name: str, go: object = going_in) -> folders.Folder:
            if name == "closed":
                raise PermissionError(13, "no")
            return go(self, name)  # type: ignore[operator]

        def opened(self: folders.Folder, name: str, go: object = opening) -> object:
            if name == "file":
                raise PermissionError(13, "no")
            return go(self, name)  # type: ignore[operator]

        monkeypatch.setattr(kind, "folder", folder)
        monkeypatch.setattr(kind, "open", opened)
    assert _list(root, ".", "**")[-1] == "[left out: 1 that cannot be read]"
    assert _search(root, "needle") == ["open:1: needle", "[left out: 2 that cannot be read]"]
    with pytest.raises(ToolError, match="closed cannot be used: no"):
        _list(root, "closed")


def test_a_tree_that_is_too_deep_ends_and_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "DEEPEST", 3)
    _tree(root, {"1/2/3/4/5": "needle"})
    assert _list(root, ".", "**") == ["1/", "1/2/", "1/2/3/", "[left out: 1 too deep]"]
    assert _list(root, "1/2/3/4", "**") == ["1/2/3/4/5"]


def test_no_descriptor_stays_open(root: Path) -> None:
    _tree(root, {f"{one}/{two}/f": "needle" for one in "abc" for two in "abc"})
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    _list(root, ".", "**")
    _search(root, "needle")
    _search(root, "x" * 20)
    _info(root, "a")
    with pytest.raises(ToolError):
        _list(root, "a/none")
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after == before


def test_a_directory_that_is_swapped_for_a_link_leads_nowhere(tmp_path: Path) -> None:
    """Whatever is swapped while we look, nothing from outside is shown. Not so in the portable way."""
    root = tmp_path / "project"
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("OUTSIDE")
    _tree(root, {f"d{number}/f": "inside" for number in range(20)})
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for number in range(20):
                here = root / f"d{number}"
                here.rename(root / "aside")
                here.symlink_to("../outside")
                here.unlink()
                (root / "aside").rename(here)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(20):
            assert not any("secret" in line for line in _list(root, ".", "**"))
            assert _search(root, "OUTSIDE")[0] == "(no line holds OUTSIDE)"
    finally:
        done.set()
        swapping.join()


def test_a_link_is_neither_gone_into_nor_opened_whatever_it_was_taken_for(root: Path) -> None:
    (root / "folder").symlink_to("../outside")
    (root / "file").symlink_to("../outside/secret.txt")
    here = paths.folder_of(root)
    try:
        with pytest.raises(OSError, match=r"."):
            here.folder("folder")
        with pytest.raises(OSError, match=r"."):
            here.open("file")
    finally:
        here.close()


# --- file_info --------------------------------------------------------------------------------------


def test_facts_of_a_text_a_picture_and_a_directory(root: Path) -> None:
    _tree(root, {"a.txt": "one\ntwo", "empty": "", "p.png": b"\x89PNG\r\n\x1a\n\0", "data": b"a\0b",
                 "sub/x": "", "sub/.env": ""})  # fmt: skip
    os.utime(root / "a.txt", (0, 0))
    shown = _info(root, "./a.txt")
    assert shown[:4] == ["a.txt", "kind: text", "size in bytes: 7", "lines: 2"]
    assert shown[4].startswith("changed: 19")
    assert _info(root, "empty")[1:4] == ["kind: text", "size in bytes: 0", "lines: 0"]
    assert _info(root, "p.png")[1:3] == ["kind: image/png", "size in bytes: 9"]
    assert _info(root, "data")[1] == "kind: application/octet-stream"
    assert _info(root, "sub") == [
        "sub/", "kind: directory", "entries: 1", "[left out: 1 that may hold secrets]",
    ]  # fmt: skip


def test_facts_of_a_link_are_those_of_what_it_leads_to(root: Path) -> None:
    _tree(root, {"a.txt": "x"})
    (root / "link").symlink_to("a.txt")
    (root / "out").symlink_to("../outside/secret.txt")
    assert _info(root, "link")[0] == "a.txt"
    with pytest.raises(ToolError, match="outside"):
        _info(root, "out")


def test_a_pipe_or_a_socket_is_not_opened(root: Path) -> None:
    os.mkfifo(root / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    try:
        os.chdir(root)  # the name of a socket must be short
        listener.bind("socket")
    finally:
        os.chdir(here)
    with listener:
        for name in ("pipe", "socket"):
            with pytest.raises(ToolError, match="not a regular file"):
                _info(root, name)
            assert _search(root, "x", name)[-1] == "[left out: 1 that cannot be read]"
        assert _list(root)[-1] == "[left out: 2 neither file nor directory]"
