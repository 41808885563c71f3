#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Record another kernel, with several NUMA nodes and little memory, in a virtual machine.

    guest.py -o T.tape --kernel PACKAGE|DIR [--load NAME] [--seconds S] [--nodes N] [--mb MB]
             [--set FILE=VALUE]...

Boots the kernel of a Debian package (or the directory it was unpacked into) in QEMU,
without KVM, runs a load of load.c in it under `pagetape record`, with exact snapshots at
both ends, and makes the tape on this machine. The guest has one disk for the load's files and
one for swap. It uses the Python, pagetape and libraries of this machine. It boots in about half
a minute. Needs qemu-system-x86_64, mke2fs, debugfs, cpio, a static busybox
and the result of `make setup`; for a package's name, apt-get.

    analyze/fidelity/guest.py -o guest-6.1.tape --kernel linux-image-cloud-amd64
"""

from __future__ import annotations

import argparse
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
from importlib.metadata import Distribution, distribution
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent

# Modules in load order; some kernels have them built in.
_MODULES = (
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
)
_DISK_MIB, _SWAP_MIB = 8192, 1024  # files without blocks until they are written

_INIT = """#!/bin/busybox sh
busybox mount -t devtmpfs dev /dev
for module in {modules}; do busybox insmod /lib/$module.ko; done
busybox mount -t ext4 -o ro /dev/vda /root
exec busybox switch_root /root /bin/busybox sh /guest
"""

_GUEST = """
busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t tracefs tracefs /sys/kernel/tracing
busybox mount -t tmpfs tmpfs /tmp
busybox mount -t ext4 /dev/vdb /data
busybox mkswap /dev/vdc >/dev/null
busybox swapon /dev/vdc
busybox mkdir /data/files
{settings}
echo -1000 >/proc/self/oom_score_adj
export HOME=/tmp PYTHONPATH={site} PATH=/bin
{python} -c 'from pagetape.cli import main; main()' record -o /data/raw.tape --defer \
    --spool-max 4GB --buffer 6MB --snapshot locked --snapshot-max-ms 100 -- \
    load {load} {seconds} /data/files
echo $? >/data/status
busybox sync
busybox poweroff -f
"""


def _run(*argv: str | Path, cwd: Path | None = None) -> str:
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, cwd=cwd).stdout


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
        shutil.copy(path, there)


def _busybox() -> Path:
    found = shutil.which("busybox")
    if not found:
        raise FileNotFoundError(errno.ENOENT, "busybox: not found (install busybox-static)")
    return Path(found)


def _settings(given: Iterable[str]) -> str:
    """Shell commands that set files of /proc and /sys before the recording."""
    lines = []
    for setting in given:
        file, equals, value = setting.partition("=")
        if not equals or not file.startswith(("/proc/sys/", "/sys/")):
            raise ValueError(f"--set: '{setting}' is not /proc/sys/FILE=VALUE or /sys/FILE=VALUE")
        lines.append(f"echo {shlex.quote(value)} >{shlex.quote(file)}")
    return "\n".join(lines)


def make_root(work: Path, load: str, seconds: int, settings: str) -> Path:
    """A disk with the programs that record in the guest."""
    root = work / "root"
    for name in ("bin", "dev", "proc", "sys", "tmp", "data"):
        (root / name).mkdir(parents=True)
    program = list(_program())
    binaries = [path for path in program if ".so" in path.name]
    for path in {*program, *_libraries([program[0], *binaries])}:
        _place(path, root)
    shutil.copy(_busybox(), root / "bin/busybox")
    _run("cc", "-O2", "-std=gnu11", "-static", "-o", root / "bin/load", HERE / "load.c")
    guest = _GUEST.format(
        site=sysconfig.get_path("purelib"),
        python=program[0],
        load=load,
        seconds=seconds,
        settings=settings,
    )
    (root / "guest").write_text(guest)
    return make_disk(work / "root.disk", 2048, root)


def make_disk(disk: Path, mib: int, content: Path | None = None) -> Path:
    """A disk with an ext4 file system that holds a directory's files."""
    copied = ("-d", content) if content else ()
    _run("mke2fs", "-q", "-t", "ext4", *copied, disk, f"{mib}M")
    return disk


def make_initramfs(work: Path, kernel: Path) -> Path:
    """An initramfs that loads the modules of the disks and continues from the disk."""
    tree = work / "initramfs"
    for name in ("bin", "dev", "lib", "root"):
        (tree / name).mkdir(parents=True)
    shutil.copy(_busybox(), tree / "bin/busybox")
    modules = []
    for module in _MODULES:
        for file in kernel.glob(f"lib/modules/*/kernel/drivers/*/{module}.ko*"):
            content = file.read_bytes()
            if file.suffix == ".xz":
                content = lzma.decompress(content)
            (tree / f"lib/{module}.ko").write_bytes(content)
            modules.append(module)
    (tree / "init").write_text(_INIT.format(modules=" ".join(modules)))
    (tree / "init").chmod(0o755)
    files = "\n".join(str(path.relative_to(tree)) for path in tree.rglob("*"))
    packed_tree = subprocess.run(
        ["cpio", "-o", "-H", "newc", "--quiet"],
        input=files.encode(),
        stdout=subprocess.PIPE,
        cwd=tree,
        check=True,
    ).stdout
    image = work / "initramfs.gz"
    image.write_bytes(gzip.compress(packed_tree, 1))
    return image


def unpacked(kernel: str, work: Path) -> Path:
    """The directory of a kernel's package."""
    if Path(kernel).is_dir():
        if not list(Path(kernel).glob("boot/vmlinuz-*")):
            raise FileNotFoundError(errno.ENOENT, f"{kernel}: no kernel in boot/")
        return Path(kernel)
    depends = _run("apt-cache", "depends", kernel)
    real = re.search(r"Depends: (linux-image-\d\S*)", depends)
    _run("apt-get", "download", "-qq", real[1] if real else kernel, cwd=work)
    (package,) = work.glob("*.deb")
    _run("dpkg", "-x", package, work / "kernel")
    return work / "kernel"


def boot(work: Path, kernel: Path, nodes: int, mib: int, seconds: int) -> None:
    """Run the guest until it powers off."""
    (image,) = kernel.glob("boot/vmlinuz-*")
    argv: list[str | Path] = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi"]
    argv += ["-cpu", "max", "-smp", str(2 * nodes), "-m", str(nodes * mib)]
    for node in range(nodes):
        argv += ["-object", f"memory-backend-ram,id=m{node},size={mib}M"]
        argv += ["-numa", f"node,nodeid={node},memdev=m{node},cpus={2 * node}-{2 * node + 1}"]
    for disk in ("root", "data", "swap"):
        argv += ["-drive", f"file={work / disk}.disk,format=raw,if=virtio,cache=unsafe"]
    argv += ["-kernel", image, "-initrd", work / "initramfs.gz", "-nographic", "-no-reboot"]
    argv += ["-net", "none", "-append", "console=ttyS0 quiet panic=1"]
    with (work / "console").open("w") as console:
        subprocess.run(
            argv,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=console,
            timeout=300 + 10 * seconds,
        )


def record(work: Path, arguments: argparse.Namespace) -> None:
    """The guest's tape."""
    kernel = unpacked(arguments.kernel, work)
    make_root(work, arguments.load, arguments.seconds, _settings(arguments.set))
    make_disk(work / "data.disk", _DISK_MIB)
    with (work / "swap.disk").open("wb") as swap:
        swap.truncate(_SWAP_MIB << 20)
    make_initramfs(work, kernel)
    boot(work, kernel, arguments.nodes, arguments.mb, arguments.seconds)
    for name in ("status", "raw.tape"):
        _run("debugfs", "-R", f"rdump /{name} {work}", work / "data.disk")
    status = work / "status"
    if not status.exists() or status.read_text().strip() != "0":
        sys.stderr.write((work / "console").read_text()[-4000:])
        raise OSError(os.EX_SOFTWARE, "the guest could not record")
    _run(BIN / "pagetape", "import", work / "raw.tape", "-o", arguments.output, "--force")


def main() -> int:
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="T.tape")
    parser.add_argument(
        "--kernel",
        required=True,
        help="a Debian package, or the directory that it was unpacked into",
    )
    parser.add_argument("--load", default="pressure", help="load of load.c (default: pressure)")
    parser.add_argument(
        "--seconds", type=int, default=15, help="duration of the load (default: 15)"
    )
    parser.add_argument(
        "--nodes", type=int, default=2, help="number of nodes, with 2 CPUs each (default: 2)"
    )
    parser.add_argument(
        "--mb", type=int, default=192, help="memory of each node, in MiB (default: 192)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FILE=VALUE",
        help="write a value into a file of the guest's /proc/sys or /sys before it records",
    )
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="guest-") as work:
        record(Path(work), arguments)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as e:
        sys.exit(f"guest: {' '.join(map(str, e.cmd))}: exit status {e.returncode}")
    except subprocess.TimeoutExpired as e:
        sys.exit(f"guest: the guest did not finish in {e.timeout:.0f} s")
    except OSError as e:
        sys.exit(f"guest: {e.strerror or e}")
    except ValueError as e:
        sys.exit(f"guest: {e}")
    except KeyboardInterrupt:
        sys.exit(130)
