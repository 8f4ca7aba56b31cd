"""A project folder and a home folder, each with settings, and the command line between them."""

import subprocess
from pathlib import Path

import pexpect

from support.process import Ran, brida, command, environment


class Folders:
    """``project`` and ``home``, in processes that know no other settings."""

    def __init__(self, directory: Path) -> None:
        self.project, self.home = directory / "project", directory / "home"
        for made in (self.project, self.home / "config" / "brida"):
            made.mkdir(parents=True)
        self.env = {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"),
        }

    @property
    def user_file(self) -> Path:
        return self.home / "config" / "brida" / "brida.toml"

    @property
    def project_file(self) -> Path:
        return self.project / "brida.toml"

    def run(self, *arguments: str, cwd: Path | None = None, **environ: str) -> Ran:
        return brida(*arguments, cwd=cwd or self.project, env={**self.env, **environ})

    def config(self, *arguments: str, **environ: str) -> dict:
        """What ``brida config --json`` prints: the values and their sources by key, and what is ignored."""
        shown = self.run("config", "--json", *arguments, cwd=None, **environ)
        assert shown.code == 0, shown.err
        made = shown.object
        made["values"] = {one["key"]: one["value"] for one in made["settings"]}
        made["sources"] = {one["key"]: one["source"] for one in made["settings"]}
        return made

    def start(self, *arguments: str) -> subprocess.Popen:
        """The command line at work, with nobody there."""
        return subprocess.Popen(
            command(*arguments),
            cwd=self.project,
            env=environment(**self.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def spawn(self, *arguments: str) -> pexpect.spawn:
        """The command line at a pseudo-terminal."""
        first, *rest = command(*arguments)
        return pexpect.spawn(
            first,
            rest,
            cwd=str(self.project),
            env=environment(**self.env),
            encoding="utf-8",
            timeout=20,
            dimensions=(40, 200),
        )
