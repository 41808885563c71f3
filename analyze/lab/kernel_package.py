# SPDX-License-Identifier: Apache-2.0
"""Kernels of Debian's archive, found by release and unpacked.

apt runs on lists of its own, of all suites, beside the kernels in the cache directory: the
machine's own configuration stays as it is. A removed cache is made anew, with newer kernels.
"""

import errno
import os
import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

_MIRROR = "http://deb.debian.org"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SUITES = (
    "debian bullseye",
    "debian bookworm",
    "debian bookworm-backports",
    "debian trixie",
    "debian trixie-backports",
    "debian sid",
    "debian-security bookworm-security",
    "debian-security trixie-security",
)
# From 6.19 on, linux-image-* is empty: the kernel and its modules have packages of their own.
_PACKAGES = (
    ("linux-binary-{}", "linux-modules-{}"),
    ("linux-image-{}",),
    ("linux-image-{}-unsigned",),
)


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pagetape/guests"


def _images(directory: Path) -> list[Path]:
    patterns = ("boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz")
    return [found for pattern in patterns for found in directory.glob(pattern)]


def image(directory: Path) -> Path:
    """The kernel in an unpacked package: in boot/ or, from 7.2 on, beside its modules."""
    for found in _images(directory):
        return found
    raise FileNotFoundError(errno.ENOENT, f"{directory}: no kernel in boot/ or usr/lib/modules/")


def newest(names: list[str], pattern: str) -> str | None:
    """The newest release that matches, out of the names of packages."""
    releases = {
        name.removeprefix("linux-image-").removesuffix("-unsigned")
        for name in names
        if not name.endswith("-dbg")
    }
    matching = [release for release in releases if fnmatchcase(release, pattern)]
    return max(matching, key=lambda name: [int(n) for n in re.findall(r"\d+", name)], default=None)


class Archive:
    """Debian's archive, with its lists and the unpacked kernels below `cache`."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache

    def _apt(self, *command: str, cwd: Path | None = None) -> str:
        apt = self.cache / "apt"
        options = {
            "Dir::Etc::sourcelist": apt / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": apt / "lists",
            "Dir::Cache": apt / "cache",
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
            "APT::Sandbox::User": "root",
        }
        argv = [command[0], *(f"-o{name}={value}" for name, value in options.items())]
        return subprocess.run(
            [*argv, *command[1:]], check=True, capture_output=True, text=True, cwd=cwd
        ).stdout

    def _lists(self) -> None:
        """Download the lists of all suites, once."""
        apt = self.cache / "apt"
        if (apt / "complete").exists():
            return
        for name in ("lists/partial", "cache/archives/partial"):
            (apt / name).mkdir(parents=True, exist_ok=True)
        lines = []
        for source in _SUITES:
            path, suite = source.split()
            lines.append(f"deb [signed-by={_KEYRING}] {_MIRROR}/{path} {suite} main\n")
        (apt / "sources.list").write_text("".join(lines))
        try:
            self._apt("apt-get", "update", "-qq", "--error-on=any")
        except subprocess.CalledProcessError as e:
            reason = (e.stderr.strip().splitlines() or ["apt-get update failed"])[0]
            raise OSError(os.EX_UNAVAILABLE, f"no lists of {_MIRROR}: {reason}") from None
        (apt / "complete").touch()

    def _unpack(self, release: str, into: Path) -> None:
        """The packages of the release; the first kind of which the archive has all."""
        for packages in _PACKAGES:
            try:
                for package in packages:
                    self._apt("apt-get", "download", "-qq", package.format(release), cwd=into)
            except subprocess.CalledProcessError:
                for file in into.glob("*.deb"):
                    file.unlink()
                continue
            for file in into.glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", file, into], check=True)
                file.unlink()
            if _images(into):
                return
        raise OSError(
            os.EX_UNAVAILABLE, f"kernel {release}: the archive lacks its image or its modules"
        )

    def kernel(self, pattern: str) -> Path:
        """The directory with the newest kernel whose release matches, as '6.1.*-cloud-amd64'.

        OSError: no network, or no such kernel.
        """
        self._lists()
        release = newest(self._apt("apt-cache", "pkgnames", "linux-image-").split(), pattern)
        if not release:
            raise FileNotFoundError(errno.ENOENT, f"no kernel {pattern} in Debian's archive")
        there = self.cache / "kernels" / release
        if not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=f".{release}-", dir=there.parent) as directory:
                part = Path(directory) / release
                part.mkdir()
                self._unpack(release, part)
                try:
                    part.rename(there)
                except OSError:
                    if not there.exists():  # or else another process was quicker
                        raise
        return there
