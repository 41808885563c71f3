# SPDX-License-Identifier: Apache-2.0
"""Kernel messages about memory failures, made from figures in the formats of many releases.

    one = make(Random(1))
    one.lines           # as printk got them, without a prefix
    one.verdict         # the class of `pagetape explain` that the figures were chosen for

The formats and figures are independent of the package that reads them: a zone's figures are chosen
around the mark that the kernel of the release applies, by a formula that stands here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

# Of each release: what its memory report looks like, and its masks of the three usual requests.
MASKS = {
    "old": {"ATOMIC": 0x20, "KERNEL": 0xD0, "HIGHUSER_MOVABLE": 0x200DA},
    "4.4": {"ATOMIC": 0x2080020, "KERNEL": 0x24000C0, "HIGHUSER_MOVABLE": 0x24200CA},
    "4.11": {"ATOMIC": 0x1080020, "KERNEL": 0x14000C0, "HIGHUSER_MOVABLE": 0x14200CA},
    "4.19": {"ATOMIC": 0x480020, "KERNEL": 0x6000C0, "HIGHUSER_MOVABLE": 0x6200CA},
    "5.1": {"ATOMIC": 0xA20, "KERNEL": 0xCC0, "HIGHUSER_MOVABLE": 0x100CCA},
    "6.3": {"ATOMIC": 0x820, "KERNEL": 0xCC0, "HIGHUSER_MOVABLE": 0x100CCA},
}


@dataclass(frozen=True)
class Format:
    """What the messages of a release look like; the first one is that of 2.6.32."""

    release: str = "2.6.32.60"
    masks: str = "old"
    names: bool = False  # of gfp flags
    nodemask: bool = False
    cpuset: bool = False
    letters: bool = False
    managed: bool = False
    cma: bool = False
    writepending: bool = False
    highatomic: bool = False  # the reserve exists
    prints_reserve: bool = False
    prints_free: bool = False  # free_highatomic
    boost: bool = False
    zspages: bool = False
    zones: int = 4  # entries of lowmem_reserve


def _formats() -> list[Format]:
    found = [Format()]
    for changes in (
        {"release": "3.10.108", "letters": True, "managed": True, "cma": True},
        {"release": "3.18.140"},
        {
            "release": "4.8.17",
            "masks": "4.4",
            "names": True,
            "writepending": True,
            "highatomic": True,
        },
        {"release": "4.14.336", "masks": "4.11", "nodemask": True, "zones": 5},
        {"release": "4.19.300", "masks": "4.19"},
        {"release": "5.4.200", "masks": "5.1", "cpuset": True, "prints_reserve": True},
        {"release": "5.10.220"},
        {"release": "5.19.17", "boost": True},
        {"release": "6.6.30", "masks": "6.3"},
        {"release": "6.8.9"},
        {"release": "6.18.3", "prints_free": True, "zspages": True},
        {"release": "7.2.1"},
    ):
        found.append(replace(found[-1], **changes))
    return found


FORMATS = _formats()


@dataclass
class Figures:
    """One zone, in pages; `blocks` are (number, letters) of order 0 to 10."""

    node: int
    name: str
    min: int
    reserve: tuple[int, ...]
    free: int = 0
    cma: int = 0
    reserved: int = 0
    boost: int = 0
    blocks: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class Message:
    """A report: its lines, its class, and the task that asked."""

    format: Format
    verdict: str
    task: str
    lines: list[str] = field(default_factory=list)


def _spread(random: Random, pages: int, letters: str, most: int) -> list[tuple[int, str]]:
    """Free pages as blocks of orders up to `most`."""
    blocks = [(0, "")] * 11
    left = pages
    for order in range(most, 0, -1):
        nr = random.randrange(0, (left >> order) // 2 + 1)
        if nr:
            blocks[order] = (nr, letters)
            left -= nr << order
    blocks[0] = (left, letters if left else "")
    return blocks


def _mark(pages: int, kind: str) -> int:
    """min less the rights of a request."""
    if kind != "ATOMIC":
        return pages
    pages -= pages // 2
    return pages - pages // 4


def _zones(random: Random, form: Format) -> list[Figures]:
    """DMA, DMA32 and Normal of one or two nodes; none has a free page yet."""
    upper = random.randrange(100_000, 9_000_000)
    middle = random.randrange(200_000, 700_000)
    tail = (0,) * (form.zones - 3)
    low = (0, middle // 256, (middle + upper) // 256)
    mid = (0, 0, upper // 256)
    rest = tuple(low[2] for _ in tail), tuple(mid[2] for _ in tail)
    zones = [
        Figures(0, "DMA", random.randrange(2, 40), (*low, *rest[0])),
        Figures(0, "DMA32", random.randrange(400, 4000), (*mid, *rest[1])),
        Figures(0, "Normal", random.randrange(4000, 20000), (0, 0, 0, *tail)),
    ]
    if random.random() < 0.25:
        zones.append(Figures(1, "Normal", random.randrange(4000, 20000), (0, 0, 0, *tail)))
    return zones


def _letters(form: Format, text: str) -> str:
    return text if form.letters else ""


def _fill(random: Random, form: Format, zone: Figures, want: str, kind: str, order: int) -> None:
    """Free pages of a zone, so that the request fails there by the wanted term."""
    usable = _letters(form, "UME" if form.highatomic else "UM")
    cz_reserve = zone.reserve[2]
    if form.boost and random.random() < 0.3:
        zone.boost = zone.min // 2
        zone.min += zone.boost
    base = zone.min - (zone.boost if kind == "ATOMIC" and not order else 0)
    line = _mark(base, kind) + cz_reserve
    lost = (1 << order) - 1
    if cz_reserve:  # a lower zone: its reserve keeps it
        zone.free = max(line - random.randrange(1, cz_reserve + 1), 40)
        zone.blocks = _spread(random, zone.free, usable, 10)
    elif want == "below_min":
        zone.free = max(line + lost - random.randrange(0, line // 3 + 1), 1)
        zone.blocks = _spread(random, zone.free, usable, 10)
    elif want == "highatomic_reserve":
        zone.reserved = 512 * random.randrange(1, 8)
        over = random.randrange(1, zone.reserved)
        zone.free = line + lost + over
        zone.blocks = _spread(random, zone.free, usable, 10)
    elif want == "cma_only":
        usable_pages = line + lost - random.randrange(0, line // 3 + 1)
        zone.cma = 1024 * random.randrange(line // 1024 + 2, line // 1024 + 60)
        zone.free = max(usable_pages, 1) + zone.cma
        zone.blocks = _spread(random, zone.free - zone.cma, usable, 9)
        zone.blocks[10] = (zone.cma >> 10, _letters(form, "C"))
    elif want in ("no_block_of_order", "no_block_of_usable_type"):
        zone.free = line + lost + random.randrange(1, line + 100)
        most = max(order - 1, 0)
        if want == "no_block_of_order":
            zone.blocks = _spread(random, zone.free, usable, most)
        else:
            large = 3 << order
            zone.blocks = _spread(random, max(zone.free - large, 0), usable, most)
            zone.blocks[order : order + 2] = (1, "H"), (1, random.choice(["C", "CH"]))
            zone.free = sum(nr << o for o, (nr, _) in enumerate(zone.blocks))
    else:  # it passes, with blocks
        zone.free = 3 * line + 70_000
        zone.blocks = _spread(random, zone.free, usable, 10)
        if zone.blocks[10][0] == 0:
            zone.blocks[10] = (1, usable)
            zone.free += 1 << 10


@dataclass(frozen=True)
class _Asked:
    kind: str
    order: int
    is_oom: bool


def _mask(form: Format, kind: str, comp: bool) -> str:
    bit = {"5.1": 0x40000, "6.3": 0x40000}.get(form.masks, 0x4000)
    value = MASKS[form.masks][kind] | (bit if comp else 0)
    names = f"(GFP_{kind}{'|__GFP_COMP' if comp else ''})" if form.names else ""
    return f"0x{value:x}{names}"


def _header(form: Format, task: str, asked: _Asked, nodes: str) -> list[str]:
    mask, order = _mask(form, asked.kind, comp=asked.order > 0), asked.order
    if asked.is_oom:
        first = f"{task} invoked oom-killer: gfp_mask={mask}, order={order}, oom_score_adj=0"
        return [first] if form.cpuset else [first, f"{task} cpuset=/ mems_allowed={nodes}"]
    sign = "." if form.release.startswith("2.") else ":"
    text = f"{task}: page allocation failure{sign} order:{order}, mode:{mask}"
    text += ", nodemask=(null)" if form.nodemask else ""
    text += f",cpuset=/,mems_allowed={nodes}" if form.cpuset else ""
    return [text]


def _trace(random: Random, form: Format, task: str, is_oom: bool) -> list[str]:
    pid = random.randrange(100, 30000)
    if form.release.startswith("2."):
        lines = [f"Pid: {pid}, comm: {task} Not tainted {form.release} #1"]
    else:
        uid = "UID: 0 " if form.release.startswith(("6.18", "7")) else ""
        lines = [f"CPU: 1 {uid}PID: {pid} Comm: {task} Not tainted {form.release} #1"]
    lines += ["Call Trace:", " dump_stack+0x5d/0x7f", " warn_alloc+0xf8/0x170"]
    if is_oom:
        lines += [" oom_kill_process+0xd1/0x180", " out_of_memory+0x1b0/0x4d0"]
    return [*lines, " __alloc_pages_slowpath+0xd0a/0xe10", " load_init+0x40/0x90"]


def _kb(pages: int) -> int:
    return 4 * pages


def _zone_line(zone: Figures, form: Format) -> str:
    low, high = zone.min + zone.min // 4, zone.min + zone.min // 2
    head = f"Node {zone.node} {zone.name} free:{_kb(zone.free)}kB"
    boost = f" boost:{_kb(zone.boost)}kB" if form.boost else ""
    marks = f" min:{_kb(zone.min)}kB low:{_kb(low)}kB high:{_kb(high)}kB"
    reserve = f" reserved_highatomic:{_kb(zone.reserved)}KB" if form.prints_reserve else ""
    reserve += f" free_highatomic:{_kb(zone.reserved)}KB" if form.prints_free else ""
    text = f"{head}{boost}{marks}{reserve} active_anon:120kB inactive_anon:3408kB active_file:88kB"
    text += " inactive_file:512kB unevictable:0kB"
    if form.writepending:
        text += " writepending:0kB" + (" zspages:0kB" if form.zspages else "")
    else:
        text += " isolated(anon):0kB isolated(file):0kB"
    text += " present:15728640kB" + (" managed:15400000kB" if form.managed else "") + " mlocked:0kB"
    if not form.writepending:
        text += " dirty:0kB writeback:0kB mapped:40kB shmem:0kB slab_reclaimable:840kB unstable:0kB"
    text += " bounce:0kB"
    text += " free_pcp:0kB local_pcp:0kB" if form.writepending else ""
    text += f" free_cma:{_kb(zone.cma)}kB" if form.cma else ""
    return text + (
        "" if form.writepending else " writeback_tmp:0kB pages_scanned:0 all_unreclaimable? no"
    )


def _list_line(zone: Figures) -> str:
    blocks = " ".join(
        f"{nr}*{4 << order}kB" + (f" ({letters})" if nr and letters else "")
        for order, (nr, letters) in enumerate(zone.blocks)
    )
    total = sum(nr * 4 << order for order, (nr, _) in enumerate(zone.blocks))
    return f"Node {zone.node} {zone.name}: {blocks} = {total}kB"


def _counters(zones: list[Figures], form: Format) -> list[str]:
    free, cma = sum(z.free for z in zones), sum(z.cma for z in zones)
    last = f" free:{free}" + (" free_pcp:0" if form.highatomic else " slab_reclaimable:840")
    return [
        "active_anon:40210 inactive_anon:81551 isolated_anon:0",
        " active_file:9102 inactive_file:8924 isolated_file:4",
        " unevictable:0 dirty:2 writeback:0" + ("" if form.prints_reserve else " unstable:0"),
        " slab_reclaimable:13324 slab_unreclaimable:44354",
        " mapped:1000 shmem:20 pagetables:900 bounce:0",
        last + (f" free_cma:{cma}" if form.cma else ""),
    ]


def _memory(zones: list[Figures], form: Format) -> list[str]:
    lines = ["Mem-Info:", *_counters(zones, form)]
    if form.writepending:
        nodes = sorted({zone.node for zone in zones})
        lines += [
            f"Node {n} active_anon:160840kB inactive_anon:326204kB active_file:36408kB"
            for n in nodes
        ]
    for zone in zones:
        lines += [_zone_line(zone, form), f"lowmem_reserve[]: {' '.join(map(str, zone.reserve))}"]
    lines += [_list_line(zone) for zone in zones]
    return [
        *lines,
        "18046 total pagecache pages",
        "4194304 pages RAM",
        "0 pages HighMem/MovableOnly",
        "84372 pages reserved",
    ]


def _memcg(random: Random, form: Format, task: str) -> list[str]:
    return [
        *_header(form, task, _Asked("KERNEL", 0, is_oom=True), "0"),
        *_trace(random, form, task, is_oom=True),
        " mem_cgroup_out_of_memory+0x111/0x130",
        "memory: usage 524268kB, limit 524288kB, failcnt 28608",
        "Memory cgroup stats for /payload:",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
        f"oom_memcg=/payload,task_memcg=/payload,task={task},pid=15307,uid=0",
        f"Memory cgroup out of memory: Killed process 15307 ({task}) total-vm:50336kB",
    ]


def make(random: Random, form: Format | None = None, want: str | None = None) -> Message:
    """A whole report of a release, with figures for a class."""
    form = form or random.choice(FORMATS)
    possible = ["below_min", "no_block_of_order", "cannot_tell", "memcg_limit"]
    possible += ["cma_only"] if form.cma else []
    possible += ["no_block_of_usable_type"] if form.highatomic and form.prints_reserve else []
    possible += ["highatomic_reserve"] if form.prints_reserve else []
    want = want or random.choice(possible)
    task = random.choice(["db", "kworker/2:0", "java", "napi/eth0-523", "mkfs.ext4", "swapper"])
    if want == "memcg_limit":
        return Message(form, want, task, _memcg(random, form, task))
    order = (
        random.randrange(2, 8) if want.startswith("no_block") else random.choice([0, 0, 0, 1, 3])
    )
    kind = "KERNEL" if want == "highatomic_reserve" else random.choice(["ATOMIC", "KERNEL"])
    if want == "cannot_tell":
        kind, order = "KERNEL", order if form.highatomic else 0
    if want == "below_min" and order == 0 and random.random() < 0.3:
        kind = "HIGHUSER_MOVABLE"
    if want == "no_block_of_usable_type":
        kind = "KERNEL"
    is_oom = kind != "ATOMIC" and order <= 3 and random.random() < 0.4 and want == "below_min"
    zones = _zones(random, form)
    for zone in zones:
        _fill(random, form, zone, want, kind, order)
    nodes = "0-1" if any(zone.node for zone in zones) else "0"
    lines = _header(form, task, _Asked(kind, order, is_oom), nodes)
    lines += _trace(random, form, task, is_oom)
    return Message(form, want, task, lines + _memory(zones, form))


def example() -> str:
    """The log analyze/demo/dmesg.txt: three failures of one server, as dmesg prints them."""
    form = next(one for one in FORMATS if one.release == "6.8.9")
    found = [
        *make(Random(4), form, "below_min").lines,
        "warn_alloc: 14 callbacks suppressed",
        *make(Random(12), form, "no_block_of_order").lines,
        *make(Random(7), form, "memcg_limit").lines,
    ]
    return "".join(f"[{4021.5 + 0.0001 * n:12.6f}] {line}\n" for n, line in enumerate(found))
