# SPDX-License-Identifier: Apache-2.0
"""The command lines that are tried on each kind of input.

A trial is a list of command lines: the next one runs if the one before it succeeded. They run in
the directory of the trial, where the input has a fixed name and `out` is an empty directory.
"""

from functools import cache
from random import Random

from damage import NUMBERS, TEXTS, damage_text

from pagetape import _replay
from pagetape.asking import papers, query
from pagetape.schemas import TABLES

Line = list[str]

KERNELS = ("auto", "2.6.31", "3.10", "5.0", "6.1", "6.18")
_SPECS = ("nofragment", "nofragment:mode=always", "pcp:mode=auto", "zone_lock", "mainline")
_SQL = (
    "SELECT count(*) FROM {table}",
    "SELECT * FROM {table} LIMIT 20",
    "SUMMARIZE {table}",
    "SELECT DISTINCT comm FROM task",
    "SELECT * FROM machine",
    "SELECT kind, count(*) FROM event GROUP BY ALL",
    "SELECT * FROM extfrag",
    "SELECT gfp_names(gfp_flags), context_names(flags) FROM event LIMIT 100",
)


@cache
def _policies() -> tuple[dict[str, object], ...]:
    return tuple(_replay.policies(()))


@cache
def _rows() -> tuple[str, ...]:
    return tuple(kernel["name"] for kernel in _replay.kernels())


def spec(random: Random) -> str:
    """A policy with values at and beyond the limits of its parameters."""
    policy = random.choice(_policies())
    words = []
    for param in policy["params"]:  # type: ignore[attr-defined]
        if random.random() < 0.6:
            limits = [param["min"], param["max"], param["default"]]
            limits += [param["min"] - 1, param["max"] + 1] if random.random() < 0.3 else []
            words.append(f"{param['name']}={random.choice((*limits, *param.get('values', ())))}")
    text = f"{policy['name']}:{','.join(words)}" if words else str(policy["name"])
    if random.random() < 0.3:
        text = damage_text(text, random)[0].replace("\0", "")
    return text[:3000]


def _report(tape: str, random: Random, *, parameters: bool = False) -> Line:
    name, found = random.choice(list(query.about_tapes().items()))
    line = ["report", name, tape]
    if found.several and random.random() < 0.5:
        line.append("base.tape")
    for parameter in found.parameters:
        if random.random() < (0.9 if parameters else 0.2):
            values = (*map(str, NUMBERS), *TEXTS, "nan", "inf", "1e300", "-0.0")
            value = random.choice(values).replace("\0", "")[:3000]
            line.append(f"--{parameter.name.replace('_', '-')}={value}")
    return line + (["--json"] if random.random() < 0.5 else [])


def _sql(tape: str, random: Random) -> Line:
    sql = random.choice(_SQL).format(table=random.choice(list(TABLES)))
    tapes = [tape, "base.tape"] if random.random() < 0.3 else [tape]
    return ["sql", *tapes, sql] + (["--json"] if random.random() < 0.5 else [])


def _members(random: Random) -> Line:
    """Most replays are of few members: each member takes the same way through the code."""
    return random.choice(([], *(["--ensemble", nr] for nr in ("0", "1", "2", "2", "3"))))


def _replayed(tape: str, random: Random) -> Line:
    line = ["replay", tape, *_members(random)]
    if random.random() < 0.6:
        for chosen in random.sample(_SPECS, random.choice((1, 1, 2))):
            line += ["--policy", chosen]
    if random.random() < 0.4:
        line += ["--kernel", random.choice((*KERNELS, *_rows()))]
    if random.random() < 0.5:
        line += ["--reclaim", random.choice(("R0", "R1", "R2"))]
    if random.random() < 0.15:
        line += ["--prefer", random.choice(("cpu", "landed"))]
    if random.random() < 0.3:
        line += ["-o", "out/r.tape"]
    return line + (["--json"] if random.random() < 0.5 else [])


def _validated(tape: str, random: Random) -> Line:
    line = ["validate", tape]
    if random.random() < 0.3:
        line += ["--kernel", random.choice((*KERNELS, *_rows()))]
    if random.random() < 0.3:
        line.append("--explain")
    if random.random() < 0.3:
        line += ["-o", "out/v.tape"]
    return line + (["--json"] if random.random() < 0.5 else [])


def of_tape(tape: str, random: Random) -> Line:
    """A command line that reads the tape `tape`."""
    json = ["--json"] if random.random() < 0.5 else []
    share = random.random()
    if share < 0.03:
        return ["info", tape, *json]
    if share < 0.06:
        return ["diagnose", tape, *random.choice(([], ["--all"])), *json]
    if share < 0.24:
        return _validated(tape, random)
    if share < 0.46:
        return _replayed(tape, random)
    if share < 0.49:
        return ["replay", tape, "--explain", *_members(random), *json]
    if share < 0.55:
        others = random.choice((["base.tape", tape], [tape, "base.tape"], [tape, tape]))
        return ["compare", *others, *json]
    if share < 0.56:
        return ["paper", random.choice(papers.names()), tape, "--ensemble", "1", *json]
    if share < 0.58:
        words = ["--policy", "nofragment:mode={off,always}", "--jobs", "2", "-o", "out/s"]
        words += _members(random)
        return ["sweep", tape, *words, *json]
    if share < 0.77:
        return _report(tape, random)
    if share < 0.84:
        return _sql(tape, random)
    if share < 0.88:
        return ["html", *random.choice(([tape], ["base.tape", tape])), "-o", "out/p.html"]
    if share < 0.94:
        words = random.choice((["-o", "out/x.json"], ["-o", "out/x.json.gz"]))
        words = random.choice((words, ["--format", "llfree", "-o", "out/x.llfree"]))
        return ["export", tape, *words, *json]
    if share < 0.97:
        return ["archive", tape, "out/fleet", *json]
    return ["import", tape, "--private", random.choice(("hash", "drop")), "-o", "out/i.tape"]


def of_options(tape: str, random: Random) -> Line:
    """A command line on a good tape with hostile options."""
    share = random.random()
    if share < 0.35:
        line = ["replay", tape]
        for _ in range(random.choice((1, 1, 2, 3))):
            line += ["--policy", spec(random)]
        line += ["--reclaim", random.choice(("R0", "R1", "R2"))]
        return line + _members(random) + random.choice(([], ["--json"]))
    if share < 0.75:
        return _report(tape, random, parameters=True)
    text = damage_text(random.choice(("0-1/2-3", "0/1-3", "100ms", "6.1", "1/2")), random)[0]
    text = text.replace("\0", "").strip()[:3000]
    return random.choice(
        (
            ["replay", tape, "--nodes", text],
            ["replay", tape, "--kernel", text],
            ["validate", tape, "--kernel", text],
            ["export", tape, "--interval", text, "-o", "out/x.json"],
            ["sweep", tape, "--policy", spec(random), "-o", "out/s"],
            ["sweep", tape, "--shard", text, "-o", "out/s"],
            ["sql", tape, text],
            ["report", text, tape],
            ["schema", text],
        )
    )


def of_import(source: str, random: Random, options: Line = []) -> list[Line]:  # noqa: B006
    """An import, and a command on the tape that it makes."""
    line = ["import", source, *options, "-o", "out/i.tape"]
    if random.random() < 0.15:
        line += ["--private", random.choice(("hash", "drop"))]
    return [line, of_tape("out/i.tape", random)]
