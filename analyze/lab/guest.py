#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Record another kernel, with several NUMA nodes and little memory, in a virtual machine.

    guest.py -o T.tape --kernel RELEASE|DIR [--load NAME[+NAME]...] [--seconds S] [--nodes N]
             [--cpus N] [--mb MB] [--machine WORDS] [--append WORDS] [--set FILE=VALUE]...
             [--cache MB] [--group MB] [--snapshot default|patient|proc] [--buffer SIZE] [--stacks]
             [--pause S] [--events SET] [--cpu MODEL] [--locks]

Boots a kernel of Debian's archive (or of a directory that its packages were unpacked into) in
QEMU, without KVM, runs a load of pagetape-load in it under `pagetape record`, with snapshots at
both ends, and makes the tape on this machine. The guest has one disk for the load's files and
one for swap. It uses the Python, pagetape and libraries of this machine. It boots in about half
a minute. Needs qemu-system-x86_64, mke2fs, debugfs, cpio, a static busybox
and the result of `make setup`; for a release, apt-get and the network. Kernels are stored in
~/.cache/pagetape/guests.

    analyze/lab/guest.py -o guest-6.1.tape --kernel '6.1.*-cloud-amd64'
"""

import contextlib
import errno
import gzip
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, fields
from importlib.metadata import Distribution, distribution
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import program
from kernel_package import Archive, cache_directory, image

# Modules in load order; some kernels have them built in.
_MODULES = (
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
)
# QEMU without KVM runs code that the kernel has just patched: such a guest panics, at random.
_BOOTS = 3  # most
# On a busy host the timer does not tick while the kernel looks, and it takes the timer for broken.
_SLOW = "no_timer_check"

_DISK_MIB, _SWAP_MIB = 8192, 1024  # files without blocks until they are written

_NEEDED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mke2fs": "e2fsprogs",
    "debugfs": "e2fsprogs",
    "cpio": "cpio",
    "busybox": "busybox-static",
}

_INIT = """#!/bin/busybox sh
busybox mount -t devtmpfs dev /dev
for module in {modules}; do busybox insmod /lib/$module.ko; done
for try in $(busybox seq 300); do [ -b /dev/vda ] && break; busybox sleep 0.1; done
busybox mount -t ext4 -o ro /dev/vda /root
busybox mount -t tmpfs tmpfs /root/tmp
busybox cp /guest /root/tmp/guest
exec busybox switch_root /root /bin/busybox sh /tmp/guest
"""

_GUEST = """
busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t tracefs tracefs /sys/kernel/tracing
busybox mount -t ext4 /dev/vdb /data
busybox mkswap /dev/vdc >/dev/null
busybox swapon /dev/vdc
busybox mkdir /data/files
busybox ifconfig lo up
{settings}
{group}
busybox dd if=/dev/zero of=/data/cache bs=1M count={cache} 2>/dev/null
echo -1000 >/proc/self/oom_score_adj
export HOME=/tmp PYTHONPATH={site} PATH=/bin
{python} -c 'from pagetape.cli import main; main()' record -o /data/raw.tape --defer \
    --events {events} --spool-max 4GB --buffer {buffer} {snapshot} {stacks} -- {load}
echo $? >/data/status
busybox sync
busybox poweroff -f
"""

# The load joins a memory control group of its own.
_GROUP = """
busybox mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
busybox mkdir /sys/fs/cgroup/load
echo {mib}M >/sys/fs/cgroup/load/memory.max
"""
_JOIN = "echo 0 >/sys/fs/cgroup/load/cgroup.procs"

# The load's parent is the recorder. It is stopped until a ring has overflowed.
_PAUSE = """(
    busybox sleep 2
    kill -STOP $PPID
    for second in $(busybox seq {seconds}); do
        busybox sleep 1
        busybox grep -q 'overrun: [1-9]' /sys/kernel/tracing/instances/*/per_cpu/*/stats && break
    done
    kill -CONT $PPID
) &"""

# A tracing instance apart from the recorder's, with its filter: what it records during the load.
_LOCKS = """
cd /sys/kernel/tracing/instances
busybox mkdir locks
echo mono >locks/trace_clock
echo 16384 >locks/buffer_size_kb
for event in contention_begin contention_end; do
    busybox cat pagetape-*/events/lock/$event/filter >locks/events/lock/$event/filter
    echo 1 >locks/events/lock/$event/enable
done
{load}
echo 0 >locks/tracing_on
busybox cat locks/trace >/data/locks
"""

# CPUs without KVM are slow, and meet late: `patient` is the default snapshot with time for that.
_SNAPSHOTS = {"default": "", "patient": "--snapshot-max-ms 100", "proc": "--snapshot proc"}


@dataclass(frozen=True)
class Guest:
    """A machine, and what is recorded on it; _HELP has the fields."""

    kernel: str
    load: str = "pressure"
    seconds: int = 15
    nodes: int = 2
    cpus: int = 2
    mb: int = 192
    machine: str = "q35"
    append: str = ""
    set: tuple[str, ...] = ()
    cache: int = 0
    group: int = 0
    snapshot: str = "patient"
    buffer: str = "6MB"
    stacks: bool = False
    pause: int = 0
    events: str = "all"
    cpu: str = "max"
    locks: bool = False


_HELP = {
    "kernel": "a release in Debian's archive, * for the newest, or a directory with its packages",
    "load": "loads of pagetape-load, joined by +, and its options",
    "seconds": "duration of the load, in s",
    "nodes": "number of nodes",
    "cpus": "CPUs of each node",
    "mb": "memory of each node, in MiB",
    "machine": "QEMU's machine; q35,max-ram-below-4g=192M gives node 0 a zone NORMAL above DMA32",
    "append": "words for the kernel's command line",
    "set": "FILE=VALUE: write a value into a file of /proc/sys or /sys before it records",
    "cache": "MiB of file pages, written before the recording",
    "group": "memory limit of the load's control group, in MiB; 0: no group",
    "snapshot": "how snapshots are taken",
    "buffer": "ring of each CPU",
    "stacks": "kernel stack of each fallback",
    "events": "event set of the recorder",
    "cpu": "CPU of QEMU; only max,-hypervisor has events of contended spinlocks",
    "locks": "with the set lock, a tracer apart from pagetape records the same: T.tape.locks",
    "pause": "stop the recorder until events are lost, at most for so many seconds",
}


def _run(*argv: str | Path, cwd: Path | None = None) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, cwd=cwd).stdout


def _distributions(name: str, seen: set[str]) -> Iterator[Distribution]:
    """An installed package and its dependencies."""
    if name.lower() in seen:
        return
    seen.add(name.lower())
    found = distribution(name)
    yield found
    for requirement in found.requires or ():
        if "extra ==" not in requirement and (needed := re.match(r"[\w.-]+", requirement)):
            yield from _distributions(needed[0], seen)


def _program() -> Iterator[Path]:
    """The files of Python and pagetape, without shared libraries of the system."""
    yield Path(sys.executable).resolve()
    stdlib = Path(sysconfig.get_path("stdlib"))
    for path in stdlib.rglob("*"):
        inside = path.relative_to(stdlib).parts
        if not {"test", "site-packages", "dist-packages"}.intersection(inside) and path.is_file():
            yield path
    for package in _distributions("pagetape", set()):
        for file in package.files or ():
            path = Path(str(package.locate_file(file)))
            if path.is_file():
                yield path


def _libraries(files: Iterable[Path]) -> set[Path]:
    """The shared libraries of these files, and their loader."""
    linked = subprocess.run(["ldd", *files], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return {Path(name) for name in re.findall(r"(/\S+) \(0x", linked.stdout.decode())}


def _place(path: Path, root: Path) -> None:
    """The file at the same path under `root`."""
    there = root / path.relative_to("/")
    there.parent.mkdir(parents=True, exist_ok=True)
    if not there.exists():
        shutil.copy2(path, there)  # with its time: else Python compiles each module again


def check_programs() -> None:
    """FileNotFoundError without pagetape beside this Python, or a program that a guest needs."""
    if not (program.BIN / "pagetape").exists():
        raise FileNotFoundError(
            errno.ENOENT,
            f"{sys.executable} has no pagetape beside it (make setup, then .venv/bin/python)",
        )
    missing = [name for name in _NEEDED if not shutil.which(name)]
    if missing:
        packages = " ".join(dict.fromkeys(_NEEDED[name] for name in missing))
        raise FileNotFoundError(
            errno.ENOENT, f"{', '.join(missing)}: not found (install {packages})"
        )


def _busybox() -> str:
    found = shutil.which("busybox")
    assert found  # check_programs
    return found


def _settings(given: Iterable[str]) -> str:
    """Shell commands that set files of /proc and /sys before the recording."""
    lines = []
    for setting in given:
        file, equals, value = setting.partition("=")
        if not equals or not file.startswith(("/proc/sys/", "/sys/")):
            raise ValueError(f"--set: '{setting}' is not /proc/sys/FILE=VALUE or /sys/FILE=VALUE")
        lines.append(f"echo {shlex.quote(value)} >{shlex.quote(file)}")
    return "\n".join(lines)


def make_root(work: Path) -> Path:
    """A disk with the programs that record in any guest."""
    root = work / "root"
    for name in ("bin", "dev", "proc", "sys", "tmp", "data"):
        (root / name).mkdir(parents=True)
    program = list(_program())
    binaries = [path for path in program if ".so" in path.name]
    for path in {*program, *_libraries([program[0], *binaries])}:
        _place(path, root)
    shutil.copy(_busybox(), root / "bin/busybox")
    disk = make_disk(work / "root.disk", 2048, root)
    shutil.rmtree(root)
    return disk


@contextlib.contextmanager
def root() -> Iterator[Path]:
    """The disk of make_root(), for as long as guests are recorded."""
    with TemporaryDirectory(prefix="guest-root-") as work:
        yield make_root(Path(work))


def script(guest: Guest) -> str:
    """The shell script that records in the guest."""
    steps = [_JOIN] if guest.group else []
    if guest.pause:
        steps.append(_PAUSE.format(seconds=guest.pause))
    words = ["pagetape-load", *guest.load.split(), "--seconds", str(guest.seconds)]
    load = f"{sysconfig.get_path('purelib')}/pagetape/{shlex.join(words)} --dir /data/files"
    steps.append(_LOCKS.format(load=load) if guest.locks else f"exec {load}")
    return _GUEST.format(
        site=sysconfig.get_path("purelib"),
        python=Path(sys.executable).resolve(),
        settings=_settings(guest.set),
        group=_GROUP.format(mib=guest.group) if guest.group else "",
        cache=guest.cache,
        buffer=guest.buffer,
        events=guest.events,
        snapshot=_SNAPSHOTS[guest.snapshot],
        stacks="--stacks extfrag" if guest.stacks else "",
        load=shlex.join(["busybox", "sh", "-c", "\n".join(steps)]),
    )


def make_disk(disk: Path, mib: int, content: Path | None = None) -> Path:
    """A disk with an ext4 file system that holds a directory's files."""
    copied = ("-d", content) if content else ()
    _run("mke2fs", "-q", "-t", "ext4", *copied, disk, f"{mib}M")
    return disk


def make_initramfs(work: Path, kernel: Path, guest: Guest) -> Path:
    """An initramfs that loads the modules of the disks and continues from the root disk."""
    tree = work / "initramfs"
    for name in ("bin", "dev", "lib", "root"):
        (tree / name).mkdir(parents=True)
    shutil.copy(_busybox(), tree / "bin/busybox")
    modules = []
    for module in _MODULES:
        for file in kernel.glob(f"**/lib/modules/*/kernel/drivers/*/{module}.ko*"):
            content = file.read_bytes()
            if file.suffix == ".xz":
                content = lzma.decompress(content)
            (tree / f"lib/{module}.ko").write_bytes(content)
            modules.append(module)
    (tree / "init").write_text(_INIT.format(modules=" ".join(modules)))
    (tree / "init").chmod(0o755)
    (tree / "guest").write_text(script(guest))
    files = "\n".join(str(path.relative_to(tree)) for path in tree.rglob("*"))
    packed_tree = subprocess.run(
        ["cpio", "-o", "-H", "newc", "--quiet"],
        input=files.encode(),
        stdout=subprocess.PIPE,
        cwd=tree,
        check=True,
    ).stdout
    packed = work / "initramfs.gz"
    packed.write_bytes(gzip.compress(packed_tree, 1))
    return packed


def unpacked(kernel: str) -> Path:
    """The directory of an unpacked kernel."""
    if Path(kernel).is_dir():
        return Path(kernel)
    return Archive(cache_directory()).kernel(kernel)


def boot(work: Path, root: Path, kernel: Path, guest: Guest) -> None:
    """Run the guest until it powers off."""
    argv: list[str | Path] = [
        "qemu-system-x86_64",
        "-machine",
        guest.machine,
        "-accel",
        "tcg,thread=multi",
    ]
    argv += ["-cpu", guest.cpu, "-smp", str(guest.cpus * guest.nodes)]
    argv += ["-m", str(guest.nodes * guest.mb)]
    for node in range(guest.nodes):
        first, last = node * guest.cpus, (node + 1) * guest.cpus - 1
        argv += ["-object", f"memory-backend-ram,id=m{node},size={guest.mb}M"]
        argv += ["-numa", f"node,nodeid={node},memdev=m{node},cpus={first}-{last}"]
    for disk in (root, work / "data.disk", work / "swap.disk"):
        argv += ["-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"]
    argv += ["-kernel", image(kernel), "-initrd", work / "initramfs.gz", "-nographic"]
    argv += ["-no-reboot", "-net", "none"]
    argv += ["-append", f"console=ttyS0 quiet panic=1 {_SLOW} {guest.append}".rstrip()]
    with (work / "console").open("w") as console:
        subprocess.run(
            argv,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=console,
            timeout=180 + 6 * guest.seconds,
        )


def record(guest: Guest, root: Path, output: Path) -> None:
    """The guest's tape. `root` is the disk of make_root(), which stays as it is."""
    kernel = unpacked(guest.kernel)
    for _ in range(_BOOTS):
        with TemporaryDirectory(prefix="guest-") as directory:
            work = Path(directory)
            if _boot(guest, kernel, root, work):
                _run(program.BIN / "pagetape", "import", work / "raw.tape", "-o", output, "--force")
                if guest.locks:
                    shutil.copy(work / "locks", f"{output}.locks")
                return
    raise OSError(os.EX_SOFTWARE, f"the guest could not record, {_BOOTS} times")


def _boot(guest: Guest, kernel: Path, root: Path, work: Path) -> bool:
    """Boot once; whether it recorded. Otherwise the end of its console goes to stderr."""
    make_disk(work / "data.disk", _DISK_MIB)
    with (work / "swap.disk").open("wb") as swap:
        swap.truncate(_SWAP_MIB << 20)
    make_initramfs(work, kernel, guest)
    boot(work, root, kernel, guest)
    for name in ("status", "raw.tape", *(["locks"] if guest.locks else [])):
        _run("debugfs", "-R", f"rdump /{name} {work}", work / "data.disk")
    status = work / "status"
    if status.exists() and status.read_text().strip() == "0":
        return True
    sys.stderr.write((work / "console").read_text()[-4000:])
    return False


def main() -> int:
    parser = program.parser(__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="T.tape")
    for field in fields(Guest):
        default, words = field.default, f"--{field.name}"
        more: dict[str, Any] = {
            "help": f"{_HELP[field.name]} (default: {default})",
            "default": default,
        }
        if field.name == "snapshot":
            parser.add_argument(words, choices=_SNAPSHOTS, **more)
        elif isinstance(default, bool):
            parser.add_argument(words, action="store_true", help=_HELP[field.name])
        elif isinstance(default, tuple):
            parser.add_argument(words, action="append", default=[], help=_HELP[field.name])
        elif default is MISSING:
            parser.add_argument(words, required=True, help=_HELP[field.name])
        else:
            parser.add_argument(words, type=type(default), **more)
    arguments = vars(parser.parse_args())
    output = arguments.pop("output")
    arguments["set"] = tuple(arguments["set"])
    check_programs()
    with root() as disk:
        record(Guest(**arguments), disk, output)
    return 0


if __name__ == "__main__":
    program.run(main)
