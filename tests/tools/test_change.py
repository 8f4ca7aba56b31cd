"""What a call would change: told before it runs, shown as a diff, held against what is there as it runs."""

import os
import stat
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.core.wording import Say, english
from brida.tools import Change, Tool, ToolError, basis, difference, paths, portable, tool, walk
from brida.tools import replace as replacing
from brida.tools.builtin import builtin_tools
from brida.tools.context import CallContext, call_context
from brida.tools.difference import change_of_file

pytestmark = pytest.mark.skipif(os.name == "nt", reason="made of links and permission bits")


@pytest.fixture(params=["walk", "portable"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file in it, for either way of opening files."""
    if request.param == "portable":
        monkeypatch.setattr(paths, "_way", lambda: portable)
    made = tmp_path / "project"
    made.mkdir()
    (made / "a.txt").write_text("one\ntwo\nthree\n")
    return made


def _approved(basis: str | None) -> AbstractContextManager[CallContext]:
    return call_context(CallContext("c", "t", "r", english, approved=True, basis=basis))


def _change(root: Path, name: str, arguments: Mapping[str, object]) -> Change:
    made = builtin_tools(root)[name].change(arguments, english)
    assert made is not None
    return made


def _write(root: Path, path: str, content: str, based_on: str | None) -> str:
    with _approved(based_on):
        return str(builtin_tools(root)["write_file"](path, content))


def _delete(root: Path, path: str, based_on: str | None) -> str:
    with _approved(based_on):
        return str(builtin_tools(root)["delete_file"](path))


# --- the declaration --------------------------------------------------------------------------------


def _declared(changes: Callable[[Mapping[str, object], Say], Change | None]) -> Tool:
    @tool(changes=changes)
    def act(path: str) -> None: ...

    return act


def test_a_tool_that_says_nothing_changes_nothing_that_is_known(say: Say) -> None:
    @tool
    def act() -> None: ...

    assert act.change({}, say) is None
    assert _declared(lambda arguments, say: None).change({"path": "a"}, say) is None


def test_a_tool_says_what_it_would_change_and_on_what_basis(say: Say) -> None:
    made = _declared(lambda arguments, say: Change("v1", lambda say: f"- {arguments['path']}"))
    change = made.change({"path": "a"}, say)
    assert change is not None
    assert (change.basis, change.diff(say)) == ("v1", "- a")


def test_a_check_that_fails_gives_an_unknown_basis_and_says_why(say: Say) -> None:
    def failing(arguments: Mapping[str, object], say: Say) -> Change:
        raise OSError("the disk is gone")

    for bad in (failing, lambda arguments, say: "text", lambda arguments, say: Change("", str)):
        change = _declared(bad).change({"path": "a"}, say)  # type: ignore[arg-type]
        assert change is not None
        assert change.basis.startswith("unknown: ")
        assert change.diff(say) == change.basis.removeprefix("unknown: ")


def test_a_diff_that_fails_or_is_no_text_is_a_note(say: Say) -> None:
    def failing(say: Say) -> str:
        raise ValueError("no")

    assert Change("b", failing).diff(say) == "(what would change cannot be shown: ValueError: no)"
    assert Change("b", lambda say: " \n").diff(say) == "(nothing would change)"
    assert Change("b", lambda say: None).diff(say) == "(nothing would change)"  # type: ignore[arg-type,return-value]


# --- the basis --------------------------------------------------------------------------------------


def test_the_basis_is_the_hash_of_what_is_there_or_that_nothing_is(root: Path) -> None:
    empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    (root / "empty").write_bytes(b"")
    assert _change(root, "write_file", {"path": "empty", "content": ""}).basis == empty
    assert _change(root, "write_file", {"path": "./empty", "content": ""}).basis == empty
    assert _change(root, "delete_file", {"path": "empty"}).basis == empty
    assert _change(root, "write_file", {"path": "new/b", "content": ""}).basis == "absent"


def test_the_basis_says_where_a_link_leads(root: Path) -> None:
    (root / "link").symlink_to("a.txt")
    direct = _change(root, "write_file", {"path": "a.txt", "content": ""}).basis
    assert _change(root, "write_file", {"path": "link", "content": ""}).basis == f"{direct} in a.txt"


def test_what_cannot_be_read_or_is_outside_has_an_unknown_basis(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "link").symlink_to("a.txt")
    cases = [("write_file", "../x", "outside"), ("write_file", "sub", "is a directory"),
             ("delete_file", "link", "is a link")]  # fmt: skip
    for name, path, reason in cases:
        change = _change(
            root, name, {"path": path, "content": ""} if name == "write_file" else {"path": path}
        )
        assert change.basis.startswith("unknown: ")
        assert reason in change.diff(english)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read anything")
def test_a_file_without_permission_has_an_unknown_basis(root: Path) -> None:
    (root / "a.txt").chmod(0o200)
    assert "Permission denied" in _change(root, "write_file", {"path": "a.txt", "content": ""}).basis


def test_nothing_is_written_on_an_unknown_basis(root: Path) -> None:
    with pytest.raises(ToolError, match="could not be told when it was approved, so nothing was done: why"):
        _write(root, "a.txt", "x", "unknown: why")
    with pytest.raises(ToolError, match="could not be told"):
        _delete(root, "a.txt", "unknown: why")
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_a_file_too_large_to_hash_is_known_by_its_facts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(basis, "HASHED", 5)
    before = _change(root, "delete_file", {"path": "a.txt"}).basis
    assert before.startswith("stat:14-")
    os.utime(root / "a.txt", ns=(1, 1))
    assert _change(root, "delete_file", {"path": "a.txt"}).basis != before
    with pytest.raises(ToolError, match="changed since"):
        _delete(root, "a.txt", before)


# --- the write --------------------------------------------------------------------------------------


def test_what_was_approved_is_written_where_nothing_changed(root: Path) -> None:
    change = _change(root, "write_file", {"path": "a.txt", "content": "new"})
    assert _write(root, "a.txt", "new", change.basis).startswith("a.txt is replaced")
    assert (root / "a.txt").read_text() == "new"
    change = _change(root, "write_file", {"path": "sub/deep/b", "content": "new"})
    assert _write(root, "sub/deep/b", "new", change.basis).startswith("sub/deep/b is written")
    assert sorted(os.listdir(root / "sub" / "deep")) == ["b"]
    assert (root / "sub" / "deep" / "b").stat().st_nlink == 1


@pytest.mark.parametrize("path", ["a.txt", "link"])
def test_a_file_that_changed_since_is_an_error_and_stays(root: Path, path: str) -> None:
    (root / "link").symlink_to("a.txt")
    change = _change(root, "write_file", {"path": path, "content": "new"})
    (root / "a.txt").write_text("someone else's")
    with pytest.raises(ToolError, match=f"{path} changed since it was approved; nothing was written"):
        _write(root, path, "new", change.basis)
    assert (root / "a.txt").read_text() == "someone else's"
    assert sorted(os.listdir(root)) == ["a.txt", "link"]


def test_a_file_that_appeared_or_went_since_is_an_error(root: Path) -> None:
    absent = _change(root, "write_file", {"path": "sub/new", "content": "x"}).basis
    there = _change(root, "write_file", {"path": "a.txt", "content": "x"}).basis
    (root / "sub").mkdir()
    (root / "sub" / "new").write_text("mine")
    (root / "a.txt").unlink()
    for path, based_on in (("sub/new", absent), ("a.txt", there)):
        with pytest.raises(ToolError, match="changed since it was approved"):
            _write(root, path, "x", based_on)
    assert (root / "sub" / "new").read_text() == "mine"
    assert os.listdir(root) == ["sub"]


def test_a_link_that_was_turned_elsewhere_is_an_error_even_to_an_equal_file(root: Path) -> None:
    (root / "b.txt").write_bytes((root / "a.txt").read_bytes())
    (root / "link").symlink_to("a.txt")
    change = _change(root, "write_file", {"path": "link", "content": "x"})
    (root / "link").unlink()
    (root / "link").symlink_to("b.txt")
    with pytest.raises(ToolError, match="changed since"):
        _write(root, "link", "x", change.basis)


def test_directories_are_not_made_for_a_change_that_is_refused(root: Path) -> None:
    with pytest.raises(ToolError, match="changed since"):
        _write(root, "new/deep/file", "x", "sha256:0")
    assert os.listdir(root) == ["a.txt"]


@pytest.mark.parametrize("was_there", [True, False])
def test_a_change_at_the_last_moment_is_seen(
    root: Path, was_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "a.txt" if was_there else "b.txt"
    change = _change(root, "write_file", {"path": path, "content": "x"})
    fill = replacing._fill

    def filled_while_another_writes(descriptor: int, content: bytes) -> None:
        fill(descriptor, content)
        (root / path).write_text("late")

    monkeypatch.setattr(replacing, "_fill", filled_while_another_writes)
    with pytest.raises(ToolError, match="changed since it was approved"):
        _write(root, path, "x", change.basis)
    assert (root / path).read_text() == "late"
    assert not list(root.glob(".*brida-tmp"))


def test_a_file_that_appears_after_the_last_look_is_not_overwritten(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = replacing._put_new

    def late(fresh: str, name: str, directory: int | None) -> bool:
        (root / "b.txt").write_text("late")
        return put(fresh, name, directory)

    monkeypatch.setattr(replacing, "_put_new", late)
    with pytest.raises(ToolError, match="changed since it was approved"):
        _write(root, "b.txt", "x", "absent")
    assert (root / "b.txt").read_text() == "late"
    assert not list(root.glob(".*brida-tmp"))


def test_a_new_file_is_written_where_there_are_no_hard_links(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*names: str, **options: object) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(os, "link", refused)
    _write(root, "b.txt", "x", "absent")
    assert (root / "b.txt").read_text() == "x"
    assert sorted(os.listdir(root)) == ["a.txt", "b.txt"]


def test_without_an_approval_bound_to_it_a_change_is_no_error(root: Path) -> None:
    assert _write(root, "a.txt", "x", None)
    assert builtin_tools(root)["write_file"]("a.txt", "y")
    assert (root / "a.txt").read_text() == "y"


def test_a_cancelled_call_does_not_write(root: Path) -> None:
    based_on = _change(root, "write_file", {"path": "a.txt", "content": "x"}).basis
    gone = threading.Event()
    gone.set()
    call = CallContext("c", "t", "r", english, approved=True, basis=based_on, cancelled=gone)
    with call_context(call), pytest.raises(ToolError, match="cancelled"):
        builtin_tools(root)["write_file"]("a.txt", "x")
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"


# --- deletion ---------------------------------------------------------------------------------------


def test_a_file_is_deleted_and_nothing_else_is(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "link").symlink_to("a.txt")
    (root / "dangling").symlink_to("nothing")
    os.mkfifo(root / "pipe")
    cases = [("sub", "is a directory"), ("link", "is a link"), ("pipe", "not a regular file"),
             ("dangling", "is a link"), ("nothing", "no file"), ("../project/sub", "is a directory"),
             ("../x", "outside"), (".", "is a directory")]  # fmt: skip
    for path, reason in cases:
        with pytest.raises(ToolError, match=reason):
            _delete(root, path, None)
    assert len(os.listdir(root)) == 5
    assert _delete(root, "a.txt", _change(root, "delete_file", {"path": "a.txt"}).basis) == "a.txt is deleted"
    assert sorted(os.listdir(root)) == ["dangling", "link", "pipe", "sub"]


def test_a_file_that_changed_since_is_not_deleted(root: Path) -> None:
    based_on = _change(root, "delete_file", {"path": "a.txt"}).basis
    (root / "a.txt").write_text("new")
    with pytest.raises(ToolError, match="changed since"):
        _delete(root, "a.txt", based_on)
    assert (root / "a.txt").read_text() == "new"


def test_a_protected_file_is_not_deleted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (portable, walk):
        monkeypatch.setattr(module, "is_writable", lambda name, directory: False)  # root may write anything
    with pytest.raises(ToolError, match="Permission denied"):
        _delete(root, "a.txt", None)
    assert (root / "a.txt").exists()


def test_what_a_directory_that_is_a_link_holds_can_be_deleted_inside_only(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "b").write_text("x")
    (root.parent / "b").write_text("OUTSIDE")
    (root / "in").symlink_to("sub")
    (root / "out").symlink_to("..")
    with pytest.raises(ToolError, match="outside"):
        _delete(root, "out/b", None)
    _delete(root, "in/b", None)
    assert not (root / "sub" / "b").exists()
    assert (root.parent / "b").exists()


def test_a_secret_file_is_not_deleted_without_an_approval(root: Path) -> None:
    (root / ".env").write_text("x")
    with call_context(CallContext("c", "t", "r", english)), pytest.raises(ToolError, match="secrets"):
        builtin_tools(root)["delete_file"](".env")
    assert _delete(root, ".env", None)


# --- the diff ---------------------------------------------------------------------------------------


def test_a_diff_is_a_unified_diff(root: Path) -> None:
    change = _change(root, "write_file", {"path": "a.txt", "content": "one\nTWO\nthree\n"})
    assert change.diff(english) == (
        "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three"
    )  # fmt: skip


def test_a_new_file_and_a_deleted_one_say_so(root: Path) -> None:
    new = _change(root, "write_file", {"path": "b.txt", "content": "x"})
    assert new.diff(english) == (
        "--- (no file)\n+++ b.txt\n@@ -0,0 +1 @@\n+x\n\\ the last line has no line end"
    )
    old = _change(root, "delete_file", {"path": "a.txt"})
    assert old.diff(english) == "--- a.txt\n+++ (no file)\n@@ -1,3 +0,0 @@\n-one\n-two\n-three"
    gone = _change(root, "delete_file", {"path": "nothing"})
    assert gone.diff(english) == "(there is no such file)"


def test_the_diff_is_of_what_the_basis_is_of(root: Path) -> None:
    change = _change(root, "write_file", {"path": "a.txt", "content": "one\n"})
    (root / "a.txt").write_text("other")
    assert "-two" in change.diff(english)
    assert "other" not in change.diff(english)


def test_a_diff_names_the_file_that_a_link_leads_to(root: Path) -> None:
    (root / "link").symlink_to("a.txt")
    assert (
        _change(root, "write_file", {"path": "link", "content": ""}).diff(english).startswith("--- a.txt\n")
    )


def test_binary_equal_and_huge_files_have_a_note_instead(root: Path) -> None:
    (root / "binary").write_bytes(b"\0\1")
    (root / "huge").write_bytes(b"x" * (difference.DIFF_FILE + 1))
    same = {"path": "a.txt", "content": "one\ntwo\nthree\n"}
    assert _change(root, "write_file", same).diff(english) == "(nothing would change)"
    assert _change(root, "delete_file", {"path": "binary"}).diff(english) == "(no diff: binary data)"
    assert "larger than 262,144" in _change(root, "delete_file", {"path": "huge"}).diff(english)


def test_a_long_diff_is_cut_and_says_how_much_is_left(root: Path) -> None:
    content = "".join(f"{number}\n" for number in range(1_000))
    shown = _change(root, "write_file", {"path": "a.txt", "content": content}).diff(english).split("\n")
    assert len(shown) == difference.DIFF_LINES + 3
    assert shown[-1] == "... 604 more lines of the diff"


def test_the_name_of_a_file_does_not_break_the_lines_of_a_diff(root: Path) -> None:
    change = _change(root, "write_file", {"path": "a\n+++ b", "content": "x"})
    assert change.diff(english).split("\n")[1] == "+++ a\\x0a+++ b"


_lines = st.lists(st.sampled_from(["a", "b", "c", "", "--- a", "@@ -1 +1 @@"]), max_size=12)


def _undone(old: list[str], diff: list[str]) -> list[str]:
    """The old lines with the diff applied."""
    made, at = [], 0
    for line in diff:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - (count != "0")
            made += old[at:begin]
            at = begin
        elif line.startswith("+"):
            made.append(line[1:])
        elif line.startswith((" ", "-")):
            assert old[at] == line[1:]
            made += [old[at]] * line.startswith(" ")
            at += 1
    return made + old[at:]


@given(_lines, _lines, _lines, _lines)
def test_a_diff_leads_from_the_old_text_to_the_new(
    head: list[str], old: list[str], new: list[str], tail: list[str]
) -> None:
    before, after = [*head, *old, *tail], [*head, *new, *tail]
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "f").write_text("".join(line + "\n" for line in before))
        content = "".join(line + "\n" for line in after).encode()
        shown = change_of_file(Path(place), "f", content, english).diff(english).split("\n")
    assert before == after if shown == ["(nothing would change)"] else _undone(before, shown[2:]) == after


def test_many_different_lines_are_shown_without_being_matched(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(difference, "_COMPARED", 2)
    shown = _change(root, "write_file", {"path": "a.txt", "content": "1\n2\n3\n"}).diff(english)
    assert shown.split("\n")[2:] == ["@@ -1,3 +1,3 @@", "-one", "-two", "-three", "+1", "+2", "+3"]


def test_the_permissions_of_a_file_are_kept_by_an_approved_write(root: Path) -> None:
    (root / "a.txt").chmod(0o640)
    based_on = _change(root, "write_file", {"path": "a.txt", "content": "x"}).basis
    _write(root, "a.txt", "x", based_on)
    assert stat.S_IMODE((root / "a.txt").stat().st_mode) == 0o640
