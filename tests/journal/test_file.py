"""The file of the journal: where it lies, who may read it, how large it is, and disks that fail."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest

from brida.core.events import CallFinished, Said, Stopped
from brida.errors import JournalError
from brida.journal import filesystem
from brida.journal.sqlite import SqliteJournal, default_path
from support.journals import COMPLETED, STATE, WAITING, Child, beginning, begun, events_of, over, waits
from support.process import environment

MOUNTS = r"""
21 26 0:20 / /proc rw,nosuid shared:5 - proc proc rw
26 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard
40 26 0:40 / /remote rw,relatime shared:20 - nfs4 server:/remote rw,vers=4.2
41 40 0:41 / /srv/local rw,relatime - xfs /dev/sdb1 rw
42 26 0:42 / /mnt/with\040space rw - fuse.sshfs ada@far: rw
43 26 0:43 / /mnt/over rw - cifs //far/share rw
44 43 0:44 / /mnt/over rw - tmpfs tmpfs rw
45 26 0:45 / /mnt/optional rw shared:1 master:2 propagate_from:3 - 9p share rw
not a line of this file
"""


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def value(path, pragma):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"PRAGMA {pragma}").fetchone()[0]


# -- who may read it


def test_only_its_owner_can_read_a_journal_and_what_belongs_to_it(journal):
    mask = os.umask(0)
    try:
        writer = begun(journal)
    finally:
        os.umask(mask)
    names = {file.name: mode_of(file) for file in journal.path.parent.iterdir()}
    assert names == {
        "journal.db": 0o600,
        "journal.db-wal": 0o600,
        "journal.db-shm": 0o600,
        "journal.db.locks": 0o700,
    }
    (lock,) = journal.path.with_name("journal.db.locks").iterdir()
    assert mode_of(lock) == 0o600
    writer.release()


def test_a_directory_that_is_not_there_is_made_for_its_owner_alone(tmp_path):
    path = tmp_path / "state" / "brida" / "journal.db"
    over(SqliteJournal(path), "run-1")
    assert mode_of(path.parent) == 0o700


def test_a_directory_that_is_there_is_left_as_it_is(tmp_path):
    tmp_path.chmod(0o755)
    over(SqliteJournal(tmp_path / "journal.db"), "run-1")
    assert mode_of(tmp_path) == 0o755


def test_a_closed_journal_is_a_single_file(journal):
    over(journal, "run-1")
    assert sorted(file.name for file in journal.path.parent.iterdir()) == ["journal.db", "journal.db.locks"]


def test_the_journal_of_a_user_is_in_the_state_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert default_path() == tmp_path / "brida" / "journal.db"
    assert default_path().name == "journal.db"


def test_names_that_an_address_would_spell_otherwise_work(tmp_path):
    path = tmp_path / "a b?c#d%20é" / "journal?mode=ro.db"
    over(SqliteJournal(path), "run-1")
    assert path.exists()
    assert [row.run_id for row in SqliteJournal(path).runs()] == ["run-1"]


# -- how it is written


def test_it_is_written_ahead(journal):
    over(journal, "run-1")
    assert value(journal.path, "journal_mode") == "wal"
    assert journal.warning is None


def synchronous_after(writer, *events):
    writer.append(events, STATE)
    return writer._connection.execute("PRAGMA synchronous").fetchone()[0]


def test_what_cannot_be_had_again_is_on_the_disk_before_anything_else(journal):
    writer = begun(journal)
    full, normal = 2, 1
    assert synchronous_after(writer, *waits(1)) == normal
    assert synchronous_after(writer, CallFinished(2.0, "call", "ok", "x")) == full
    assert synchronous_after(writer, *waits(1)) == normal
    assert synchronous_after(writer, *waits(1), Stopped(2.0, WAITING)) == full


def test_on_a_network_file_system_it_is_rolled_back_and_a_person_is_told(path, tmp_path, monkeypatch):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / {tmp_path} rw - nfs4 server:/ rw\n")
    monkeypatch.setattr(filesystem, "MOUNTS", mounts)
    journal = SqliteJournal(path)
    assert "network file system" in str(journal.warning)
    writer = begun(journal)
    try:
        assert synchronous_after(writer, *waits(1)) == 2
        assert value(path, "journal_mode") == "delete"
        assert len(journal.read("run-1")) == 3
    finally:
        writer.release()


@pytest.mark.parametrize(
    "path, type_",
    [
        ("/", "ext4"),
        ("/var/lib", "ext4"),
        ("/remote/ada/.local", "nfs4"),
        ("/remote", "nfs4"),
        ("/homes", "ext4"),
        ("/srv/local/x", "xfs"),
        ("/mnt/with space/x", "fuse.sshfs"),
        ("/mnt/over/x", "tmpfs"),
        ("/mnt/optional/x", "9p"),
    ],
)
def test_the_mount_that_a_path_lies_on_is_the_deepest_and_last(path, type_):
    assert filesystem.type_of_file_system(path, MOUNTS) == type_


def test_no_mounts_say_nothing():
    assert filesystem.type_of_file_system("/x", "") is None


def test_a_system_without_a_list_of_mounts_has_no_network(tmp_path, monkeypatch):
    monkeypatch.setattr(filesystem, "MOUNTS", tmp_path / "none")
    assert not filesystem.is_networked(tmp_path)


# -- how large it is


def test_two_hundred_turns_of_ten_kilobytes_stay_within_two_and_a_half_times_their_size(journal):
    writer = begun(journal)
    raw = 0
    for turn in range(200):
        content = f"{turn:>6}" + "a line of what a tool said\n" * 380
        raw += len(content)
        writer.append([CallFinished(2.0, f"call-{turn}", "ok", content)], STATE)
        writer.append(waits(4), STATE)
    writer.append([Stopped(2.0, COMPLETED)], STATE)
    writer.release()
    assert raw > 2_000_000
    assert sum(file.stat().st_size for file in journal.path.parent.iterdir() if file.is_file()) < 2.5 * raw


# -- disks that fail


def test_a_journal_that_is_full_keeps_what_it_has_and_says_so(journal):
    writer = begun(journal)
    pages = writer._connection.execute("PRAGMA page_count").fetchone()[0]
    writer._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(JournalError, match="the disk is full"):
        writer.append([Said(2.0, "x" * 100_000)], STATE)
    assert events_of(journal) == beginning()
    assert journal.runs()[0].last_seq == 2
    writer._connection.execute("PRAGMA max_page_count = 100000")
    writer.append(waits(1), STATE)
    assert events_of(journal) == [*beginning(), *waits(1)]


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
def test_a_file_that_may_not_grow_keeps_whole_appends_alone(journal, path):
    with Child(path) as child:
        child.ask("begin", "run-1")
        child.ask("limit_files", 400_000)
        kept = child.ask("fill", 10_000)
        assert kept > 3
        assert child.ask("count", "run-1") == kept + 2
    assert len(journal.read("run-1")) == kept + 2
    writer = journal.hold("run-1")
    writer.append(waits(1), STATE)
    assert len(journal.read("run-1")) == kept + 3


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
@pytest.mark.parametrize("size", [0, 2_000, 9_000])
def test_a_journal_that_cannot_be_made_for_want_of_room_can_be_made_later(journal, path, size):
    with Child(path) as child:
        child.ask("limit_files", size)
        assert child.ask("begin", "run-1")[0] == "JournalError"
    begun(journal)
    assert events_of(journal) == beginning()
    assert [row.run_id for row in journal.runs()] == ["run-1"]


FULL_DISK = """
import sys
from pathlib import Path
from brida.core.events import Said
from brida.errors import JournalError
from brida.journal.sqlite import SqliteJournal
from support.journals import STATE, begun
journal = SqliteJournal(Path(sys.argv[1]) / "journal.db")
writer = begun(journal)
kept = 2
try:
    while True:
        writer.append([Said(2.0, "x" * 5000)], STATE)
        kept += 1
except JournalError as error:
    print(error)
print(len(journal.read("run-1")) - kept, kept > 10, len(journal.runs()))
writer.release()
print(len(journal.read("run-1")) - kept)
"""


def test_a_disk_that_is_full_keeps_whole_appends_alone(tmp_path):
    unshare = shutil.which("unshare")
    if unshare is None or os.getuid() != 0:
        pytest.skip("a disk of its own needs root")
    script = 'mount -t tmpfs -o size=512k tmpfs "$1" || exit 77; exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        [unshare, "--mount", "sh", "-c", script, "sh", tmp_path, sys.executable, FULL_DISK],
        env=environment(),
        capture_output=True,
        timeout=50,
        check=False,
        text=True,
    )
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("this system gives no disk of its own")
    assert done.returncode == 0, done.stderr
    words, *counts = done.stdout.splitlines()
    assert "the disk is full" in words
    assert counts == ["0 True 1", "0"]


# -- places where it cannot be


def test_a_directory_is_no_journal(tmp_path):
    journal = SqliteJournal(tmp_path)
    for look in (journal.runs, lambda: journal.begin("run-1")):
        with pytest.raises(JournalError, match=str(tmp_path)):
            look()


def test_a_parent_that_is_a_file_is_no_place(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(JournalError, match="cannot be used"):
        SqliteJournal(tmp_path / "file" / "journal.db").begin("run-1")


def test_a_link_that_leads_to_itself_is_no_place(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(JournalError, match="cannot be used"):
        SqliteJournal(tmp_path / "loop").begin("run-1")


def test_a_link_to_a_file_that_is_not_there_yet_makes_it_where_the_link_leads(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "far" / "journal.db")
    over(SqliteJournal(tmp_path / "link.db"), "run-1")
    assert (tmp_path / "link.db").is_symlink()
    assert mode_of(tmp_path / "far" / "journal.db") == 0o600


def test_a_name_that_is_too_long_is_no_place(tmp_path):
    with pytest.raises(JournalError, match="cannot be used"):
        SqliteJournal(tmp_path / ("x" * 300)).begin("run-1")


@pytest.fixture
def child(tmp_path_factory):
    """A process without the rights of root, and a directory that everybody can reach."""
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        path = os.path.join(directory, "journal.db")
        with Child(path) as child:
            child.ask("be_nobody")
            yield child, path


@pytest.mark.parametrize("what, mode", [("file", 0o400), ("file", 0o000), ("directory", 0o500)])
def test_what_is_read_only_is_refused_and_left_as_it_is(child, what, mode):
    process, path = child
    assert process.ask("begin_in", path, "run-1") is None
    with open(path, "rb") as file:
        before = file.read()
    changed = path if what == "file" else os.path.dirname(path)
    os.chmod(changed, mode)
    kind, words = process.ask("begin", "run-2")
    assert kind == "JournalError"
    assert path in words
    assert process.ask("hold", "run-1")[0] == "JournalError"
    os.chmod(changed, 0o700 if what == "directory" else 0o600)
    with open(path, "rb") as file:
        assert file.read() == before
