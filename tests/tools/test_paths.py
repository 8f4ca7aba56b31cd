"""Only regular files inside the root are opened, whatever their path is called and whoever changes it."""

import errno
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brida.tools import ToolError, paths, portable
from brida.tools import replace as replacing
from brida.tools.paths import PathRefused, is_sensitive, open_inside, write_inside
from brida.tools.spelling import is_secret

pytestmark = pytest.mark.skipif(os.name == "nt", reason="made of links, pipes and permission bits")


def _say(text: str, /, **facts: object) -> str:
    return text.format(**facts)


@pytest.fixture(params=["walk", "portable"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file outside beside it, for either way of opening files."""
    if request.param == "portable":
        monkeypatch.setattr(paths, "_way", lambda: portable)
    made = tmp_path / "project"
    (made / "sub").mkdir(parents=True)
    (made / "a.txt").write_text("inside")
    (made / "sub" / "b.txt").write_text("below")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("OUTSIDE")
    return made


def _read(root: Path, path: str) -> str:
    with open_inside(root, path, say=_say) as file:
        return file.read().decode()


def _both(root: Path) -> tuple[Callable[[str], object], Callable[[str], object]]:
    """Reading and writing."""
    return (
        lambda path: open_inside(root, path, say=_say).close(),
        lambda path: write_inside(root, path, b"", say=_say),
    )


def _left_behind(root: Path) -> list[str]:
    return [path.name for path in root.rglob(".*brida-tmp")]


@pytest.mark.parametrize(
    "path",
    ["a.txt", "./a.txt", "sub/../a.txt", ".//a.txt", "sub//..//a.txt", "../project/a.txt",
     "sub/../../project/a.txt", "{root}/a.txt", "{root}//sub/../a.txt", "{root}/../project/a.txt",
     "/..{root}/a.txt"],
)  # fmt: skip
def test_any_spelling_of_a_file_inside_opens_it(root: Path, path: str) -> None:
    assert _read(root, path.format(root=root)) == "inside"


@pytest.mark.parametrize(
    "path",
    ["../outside/secret.txt", "{root}/../outside/secret.txt", "/proc/version", "sub/../../outside/secret.txt",
     "..", "/", "../nothing", "/nothing/../proc/version", "../project-2/a.txt"],
)  # fmt: skip
def test_what_leads_outside_is_refused_whether_it_is_there_or_not(root: Path, path: str) -> None:
    for act in (
        lambda name: open_inside(root, name, say=_say),
        lambda name: write_inside(root, name, b"", say=_say),
    ):
        with pytest.raises(PathRefused, match="is outside the project directory"):
            act(path.format(root=root))
    assert not (root.parent / "nothing").exists()


@pytest.mark.parametrize(
    "target", ["a.txt", "sub/../a.txt", "{root}/a.txt", "../project/a.txt", "again", "./up/a.txt"]
)
def test_links_that_end_inside_are_followed(root: Path, target: str) -> None:
    (root / "again").symlink_to("sub/back.txt")
    (root / "sub" / "back.txt").symlink_to("../a.txt")
    (root / "up").symlink_to("sub/..")
    (root / "link").symlink_to(target.format(root=root))
    assert _read(root, "link") == "inside"
    assert write_inside(root, "link", b"new", say=_say)
    assert (root / "a.txt").read_text() == "new"
    assert (root / "link").is_symlink()


def test_a_root_that_is_a_link_is_the_directory_it_leads_to(root: Path) -> None:
    link = root.parent / "alias"
    link.symlink_to(root)
    assert _read(link, "a.txt") == _read(link, f"{link}/a.txt") == _read(link, f"{root}/a.txt") == "inside"


@pytest.mark.parametrize(
    "target",
    [
        "../outside/secret.txt",
        "/proc/version",
        "../outside/new.txt",
        "out/secret.txt",
        "/nothing/at/all",
        "out/new",
    ],
)
def test_links_that_end_outside_are_refused_dangling_ones_too(root: Path, target: str) -> None:
    (root / "out").symlink_to("../outside")
    (root / "link").symlink_to(target)
    with pytest.raises(PathRefused, match="outside"):
        open_inside(root, "link", say=_say)
    with pytest.raises(PathRefused, match="outside"):
        write_inside(root, "link", b"x", say=_say)
    assert sorted(os.listdir(root.parent / "outside")) == ["secret.txt"]


def test_a_dangling_link_that_ends_inside_can_be_written_through(root: Path) -> None:
    (root / "link").symlink_to("sub/new/c.txt")
    with pytest.raises(PathRefused, match="there is no file link"):
        open_inside(root, "link", say=_say)
    assert not write_inside(root, "link", b"c", say=_say)
    assert (root / "sub" / "new" / "c.txt").read_text() == "c"
    assert (root / "link").is_symlink()


def test_links_that_run_in_a_circle_are_refused(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    (root / "self").symlink_to("self/x")
    for path in ("one", "one/x", "self", "self/y"):
        with pytest.raises(PathRefused):
            open_inside(root, path, say=_say)
        with pytest.raises(PathRefused):
            write_inside(root, path, b"", say=_say)


@pytest.mark.parametrize("path", ["", "a\0b", "\ud83d", "x" * 256, "a/" * 3_000, "é" * 128])
def test_what_cannot_be_a_path_is_refused_by_a_text_that_can_be_sent(root: Path, path: str) -> None:
    for act in _both(root):
        with pytest.raises(PathRefused) as refused:
            act(path)
        assert str(refused.value).encode()
        assert len(str(refused.value)) < 300
        assert "\0" not in str(refused.value)


def test_a_tilde_is_a_name_like_any_other(root: Path) -> None:
    write_inside(root, "~/x", b"home", say=_say)
    assert (root / "~" / "x").read_text() == "home"


@pytest.mark.parametrize(
    "path", ["sub", "sub/", ".", "./", "sub/..", "{root}", "sub/.", "new/", "link", "new/."]
)
def test_directories_are_refused(root: Path, path: str) -> None:
    (root / "link").symlink_to("sub/")
    for act in (
        lambda name: open_inside(root, name, say=_say),
        lambda name: write_inside(root, name, b"", say=_say),
    ):
        with pytest.raises(PathRefused):
            act(path.format(root=root))
    assert not (root / "new").exists()


@pytest.mark.parametrize("path", ["a.txt/", "a.txt/.", "a.txt/x", "a.txt/../a.txt"])
def test_a_file_is_not_a_directory(tmp_path: Path, path: str) -> None:
    (tmp_path / "a.txt").write_text("inside")
    with pytest.raises(PathRefused, match="leads through a file"):
        open_inside(tmp_path, path, say=_say)


def test_pipes_sockets_and_devices_are_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    try:
        os.chdir(root)  # the name of a socket must be short
        listener.bind("socket")
    finally:
        os.chdir(here)
    names = ["pipe", "socket"]
    if os.geteuid() == 0:
        try:
            os.mknod(root / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
            names.append("device")
        except PermissionError:
            pass
    for name in names:
        (root / f"to-{name}").symlink_to(name)
        for path in (name, f"to-{name}"):
            with pytest.raises(PathRefused, match="a device, a pipe or a socket"):
                open_inside(root, path, say=_say)
            with pytest.raises(PathRefused, match="a device, a pipe or a socket"):
                write_inside(root, path, b"", say=_say)
    listener.close()


def test_writing_makes_the_directories_that_are_missing_and_nothing_else(root: Path) -> None:
    assert not write_inside(root, "x/../y/./z/new.txt", b"1", say=_say)
    assert (root / "y" / "z" / "new.txt").read_bytes() == b"1"
    assert not (root / "x").exists()
    assert write_inside(root, "y/z/new.txt", b"2", say=_say)
    assert _left_behind(root) == []


def test_permission_bits_are_kept_and_new_files_follow_the_umask(root: Path) -> None:
    (root / "a.txt").chmod(0o751)
    old = os.umask(0o027)
    try:
        write_inside(root, "a.txt", b"x", say=_say)
        write_inside(root, "new.txt", b"x", say=_say)
    finally:
        os.umask(old)
    assert stat.S_IMODE((root / "a.txt").stat().st_mode) == 0o751
    assert stat.S_IMODE((root / "new.txt").stat().st_mode) == 0o640


def test_a_set_user_id_bit_does_not_come_along(root: Path) -> None:
    (root / "a.txt").chmod(0o4755)
    write_inside(root, "a.txt", b"x", say=_say)
    assert stat.S_IMODE((root / "a.txt").stat().st_mode) == 0o755


def test_a_protected_file_is_not_replaced(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacing, "is_writable", lambda name, directory: False)  # root may write anything
    with pytest.raises(PathRefused, match="cannot be used: Permission denied"):
        write_inside(root, "a.txt", b"x", say=_say)
    assert (root / "a.txt").read_text() == "inside"


def test_writing_to_a_hard_link_leaves_the_file_outside_alone(root: Path) -> None:
    os.link(root.parent / "outside" / "secret.txt", root / "hard.txt")
    write_inside(root, "hard.txt", b"mine", say=_say)
    assert (root.parent / "outside" / "secret.txt").read_text() == "OUTSIDE"


@pytest.mark.parametrize("path", ["a.txt", "new.txt"])
def test_a_full_disk_leaves_the_old_file_whole_and_nothing_behind(tmp_path: Path, path: str) -> None:
    (tmp_path / "a.txt").write_text("inside")
    code = (
        "import sys, resource, pathlib; sys.path[:0] = eval(sys.argv[1]);"
        "from brida.tools.paths import write_inside;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "root = pathlib.Path(sys.argv[2]); say = lambda text, /, **facts: text.format(**facts);"
        "write_inside(root, sys.argv[3], b'x' * 5000, say=say)"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", code, repr(sys.path), str(tmp_path), path],
                         capture_output=True, text=True, check=False)  # fmt: skip
    assert f"PathRefused: {path} cannot be used: {os.strerror(errno.EFBIG)}" in ran.stderr
    assert sorted(os.listdir(tmp_path)) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "inside"
    assert resource.getrlimit(resource.RLIMIT_FSIZE) != (1000, 1000)


def test_an_error_when_it_is_renamed_leaves_nothing_behind(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(PathRefused, match="cannot be used"):
        write_inside(root, "a.txt", b"x", say=_say)
    assert _left_behind(root) == []
    assert (root / "a.txt").read_text() == "inside"


def test_a_refusal_is_an_error_for_the_model() -> None:
    assert issubclass(PathRefused, ToolError)


def test_no_descriptor_is_left_open(root: Path) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("counts descriptors in /proc")
    (root / "loop").symlink_to("loop")
    (root / "out").symlink_to("../outside")
    before = len(os.listdir("/proc/self/fd"))
    for path in (
        "a.txt",
        "../project/sub/b.txt",
        "loop",
        "out/secret.txt",
        "sub",
        "none",
        "a.txt/x",
        "{}/sub/b.txt",
        "",
    ):
        for act in (lambda name: open_inside(root, name, say=_say).close(),
                    lambda name: write_inside(root, name, b"x", say=_say),
                    lambda name: is_sensitive(root, name, say=_say)):  # fmt: skip
            try:
                act(path.format(root))
            except PathRefused:
                continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_root_of_the_file_system_may_be_the_root(root: Path) -> None:
    assert _read(Path("/"), str(root / "a.txt")) == "inside"
    assert _read(Path("/"), f"..{root}/a.txt") == "inside"


# --- secrets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [".env", ".env.local", ".ENV", ".envrc", "prod.env", ".ssh", ".git", ".Git", ".gnupg", ".aws", ".netrc",
     ".npmrc", ".pypirc", "server.pem", "server.KEY", "id_rsa", "id_rsa.pub", "id_ed25519", "a.p12", "a.pfx",
     "a.keystore", "credentials", "credentials.json", "Credentials", ".g\u200cit", ".env. ", ".env::$DATA",
     "．env", ".git-credentials"],
)  # fmt: skip
def test_names_that_may_mean_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", [".gitignore", ".github", "environment", "keys.txt", "a.pem.txt", "README.md", "", "."]
)
def test_names_that_do_not(name: str) -> None:
    assert not is_secret(name)


def test_the_spelled_the_linked_and_the_final_names_count(root: Path) -> None:
    (root / ".env").write_text("KEY=1")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("x")
    (root / "notes.txt").symlink_to(".env")
    (root / "again.txt").symlink_to("notes.txt")
    (root / "conf").symlink_to(".git")
    (root / "key.pem").symlink_to("a.txt")
    (root / "new.txt").symlink_to(".env.new")
    for path in (".env", "notes.txt", "again.txt", "conf/config", "key.pem", ".git/../a.txt", "new.txt",
                 "x/.env", f"{root}/notes.txt",
                 "../project/notes.txt", f"{root}/key.pem", "sub/../.env"):  # fmt: skip
        reason = is_sensitive(root, path, say=_say)
        assert reason is not None, path
        assert "may hold secrets" in reason
    for path in (
        "a.txt",
        "sub/b.txt",
        "new/file",
        f"{root}/a.txt",
        "../project/a.txt",
        "",
        "a\0",
        "../outside/x",
    ):
        assert is_sensitive(root, path, say=_say) is None, path


def test_where_the_project_lies_does_not_count(tmp_path: Path) -> None:
    inner = tmp_path / ".git" / "project"
    inner.mkdir(parents=True)
    (inner / "a.txt").write_text("x")
    assert is_sensitive(inner, "a.txt", say=_say) is None
    assert is_sensitive(inner, f"{inner}/a.txt", say=_say) is None


# --- random trees ----------------------------------------------------------------------------------

_DIRECTORIES = ["d", "d/e", "f"]
_LINKS = ["l1", "l2", "d/l3", "d/e/l4"]
_part = st.sampled_from(
    ["d", "e", "f", "t", "l1", "l2", "l3", "l4", "..", ".", "", "project", "outside", "new"]
)
_path = st.tuples(
    st.sampled_from(["", "", "", "{root}/", "/", "{outside}/"]), st.lists(_part, max_size=6)
).map(lambda made: made[0] + "/".join(made[1]))


def _tree(base: Path, links: list[str]) -> Iterator[Path]:
    """A project and an outside of the same shape; the content of each file is its own path."""
    for top in ("project", "outside"):
        for directory in _DIRECTORIES:
            (base / top / directory).mkdir(parents=True, exist_ok=True)
        for directory in ("", *_DIRECTORIES):
            file = base / top / directory / "t"
            file.write_text(str(file))
    for name, target in zip(_LINKS, links, strict=True):
        if target and "\0" not in target:
            (base / "project" / name).symlink_to(target)
    yield base / "project"


@given(st.tuples(*[_path] * 4), _path)
def test_random_paths_open_what_they_resolve_to_or_nothing(links: tuple[str, ...], path: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        base = Path(os.path.realpath(place))
        names = {"root": base / "project", "outside": base / "outside"}
        for root in _tree(base, [link.format(**names) for link in links]):
            spelled = path.format(**names)
            try:
                real = os.path.realpath(root / spelled, strict=True) if spelled else None
            except OSError:
                real = None
            file = real is not None and os.path.isfile(real) and not spelled.endswith(("/", "/."))
            try:
                content = _read(root, spelled)
            except PathRefused:
                assert not (file and str(real).startswith(f"{root}/")), "a file inside was refused"
            else:
                assert content.startswith(f"{root}/"), "a file outside was opened"
                assert real is None or content == real


@given(st.tuples(*[_path] * 4), _path)
def test_random_writes_change_nothing_outside(links: tuple[str, ...], path: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        base = Path(os.path.realpath(place))
        names = {"root": base / "project", "outside": base / "outside"}
        for root in _tree(base, [link.format(**names) for link in links]):
            before = sorted((base / "outside").rglob("*"))
            try:
                write_inside(root, path.format(**names), b"written", say=_say)
            except PathRefused:
                written = 0
            else:
                written = 1
            assert sorted((base / "outside").rglob("*")) == before
            assert all(file.read_text() == str(file) for file in before if file.is_file())
            assert sorted(os.listdir(base)) == ["outside", "project"]
            files = [file for file in root.rglob("*") if file.is_file() and not file.is_symlink()]
            assert sum(file.read_bytes() == b"written" for file in files) == written


# --- a race ----------------------------------------------------------------------------------------


def _swap_until(done: threading.Event, victim: Path, kept: Path, target: str) -> None:
    """Puts a link to ``target`` in the place of ``victim`` and takes it away again."""
    while not done.is_set():
        with suppress(OSError):
            os.rename(victim, kept)
        _clear(victim)
        with suppress(OSError):
            os.symlink(target, victim)
        _clear(victim)
        with suppress(OSError):
            os.rename(kept, victim)


def _clear(place: Path) -> None:
    """Takes away whatever the other side has made there; follows no link."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        with suppress(OSError):
            place.unlink()


@pytest.mark.parametrize("victim, target", [("d", "../outside"), ("d/t", "../../outside/t")])
def test_a_swap_between_check_and_use_never_leads_outside(tmp_path: Path, victim: str, target: str) -> None:
    root, outside = tmp_path / "project", tmp_path / "outside"
    for place, content in ((root / "d", "inside"), (outside, "OUTSIDE")):
        place.mkdir(parents=True)
        (place / "t").write_text(content)
    done = threading.Event()
    racer = threading.Thread(target=_swap_until, args=(done, root / victim, root / "kept", target))
    racer.start()
    opened = refused = 0
    try:
        for number in range(20_000):
            if number > 1_500 and opened and refused:
                break
            try:
                if number % 3:
                    assert _read(root, "d/t") in ("inside", "written")
                else:
                    write_inside(root, "d/t", b"written", say=_say)
                opened += 1
            except PathRefused:
                refused += 1
    finally:
        done.set()
        racer.join()
    assert (outside / "t").read_text() == "OUTSIDE"
    assert os.listdir(outside) == ["t"]
    assert opened
    assert refused
