# SPDX-License-Identifier: Apache-2.0
"""pagetape replay: a tape through the allocator model."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import click

from pagetape import answer, console
from pagetape.commands import options
from pagetape.numa_maps import parse
from pagetape.replaying import divergence, kernels, model_error, preference, presets
from pagetape.replaying.playback import Run, check, is_own, play
from pagetape.replaying.validation import preferences, inferred
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import output
from pagetape.tapes.loss import Loss


def _preference(found: dict[str, Any]) -> str:
    """How the requests found the node they prefer; nothing for a machine of one node."""
    if not found["requests"]:
        return ""
    share = answer.share(
        found["requests"] - round(found["landed"] * found["requests"]), found["requests"]
    )
    told = answer.amount(found["told_threads"], "thread")
    return (
        f"preferred node ({found['how']}): the CPU's for {share} % of the requests, for the others "
        f"the one they were served from ({answer.amount(found['landed_threads'], 'thread')})"
        + (f"; told of {told}" if found["told_threads"] else "")
        + "\n"
    )


def _wrong_page(first: dict[str, Any] | None) -> str:
    """The first wrong page and its explanation."""
    if first is None:
        return "no wrong page"
    expected = "nothing" if first["expected"] is None else str(first["expected"])
    line = (
        f"first wrong page: event {first['at']:,} ({first['ts'] / 1e9:.6f} s), CPU {first['cpu']},"
        f" order {first['page_order']} {first['migratetype']}: expected {expected},"
        f" got {first['got']}"
    )
    return "\n".join([line, *(f"  {told}" for told in first["explanation"])])


def _text(result: dict[str, Any]) -> str:
    rows = [(name, t["value"], t["tier"]) for name, t in result["totals"].items()]
    return (
        f"kernel {result['kernel']}, policy {' + '.join(result['policies'])}, "
        f"reclaim {result['reclaim']}: {answer.amount(result['events'], 'event')}\n\n"
        f"{answer.table(('total', 'value', 'tier'), rows)}\n\n"
        f"{_preference(result['preference'])}"
        f"{''.join(f'synthetic: {what}{chr(10)}' for what in result['synthetic'])}"
        f"not modelled: {', '.join(result['not_modelled'])}\n"
    )


def _told(tape: Tape, numa_maps: Path) -> tuple[tuple[int, str], ...]:
    """What the threads of the tape prefer, by the file of --numa-maps."""
    rows = parse(numa_maps.read_text("utf-8", "replace"))
    if not rows:
        raise TapeError(errno.EINVAL, f"{numa_maps}: not as grep -H '' /proc/*/numa_maps writes it")
    return tuple(sorted(preference.told(tape, rows).items()))


@click.command("replay")
@options.tape
@options.kernel
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="SPEC",
    help="name, or name:key=value,key=value; may be given again. Default: mainline.",
)
@options.policy_libs
@click.option(
    "--reclaim",
    type=click.Choice(options.RECLAIM),
    default="R0",
    show_default=True,
    help="R0: reclaim frees pages when the tape says; wakes and boosts are only counted. "
    "R1: the model's kswapd and stalled allocations take those pages when they need them, and "
    "its kcompactd moves pages. R2: as R1, and where the tape has no more pages to reclaim, the "
    "oldest MOVABLE ones: synthetic.",
)
@click.option(
    "--prefer",
    type=click.Choice(preference.MODES),
    default="auto",
    show_default=True,
    help="Which node a request asks first, if it does not say. cpu: the CPU's. landed: the one it "
    "was served from. auto: the CPU's, but landed for threads that seem to be under a memory "
    "policy: more than 2 % of their requests went elsewhere while the CPU's node had memory.",
)
@click.option(
    "--numa-maps",
    type=options.PATH,
    metavar="FILE",
    help="Memory policies of the recorded processes, as grep -H '' /proc/[0-9]*/numa_maps writes "
    "them: --prefer auto then knows instead of guessing.",
)
@click.option(
    "--nodes",
    "node_map",
    metavar="CPUS/CPUS...",
    help="Play a tape of one node as of several, with these CPUs on each, as 0-3/4-7: the policy "
    "fake_numa, with a map of its own. Synthetic.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Tell of the first page that is not the kernel's, with both states around it. Only "
    "under the tape's own kernel and policy, and R0.",
)
@click.option("-o", "--output", "out", type=options.PATH, metavar="OUT.tape", help="Keep the run.")
@options.force
@options.json
def command(
    tape: Path,
    kernel: str,
    policies: tuple[str, ...],
    policy_libs: tuple[str, ...],
    reclaim: str,
    prefer: str,
    numa_maps: Path | None,
    node_map: str | None,
    explain: bool,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Play a tape through the allocator model; print the run's totals with their tier.

    The requests are the tape's, every decision is the model's. OUT.tape has the
    same tables as the input, so that every report and compare works on it. Tier A
    is placement; B is feedback, modelled by R1 and R2 only. What no replay can tell,
    such as refaults, is listed as not modelled.

    The OUT.tape of a what-if also says how far the model is off on this recording, from
    a replay under the recording's own rules; that one is made once and its figures kept.

    \b
    Example:
      pagetape replay base.tape --policy nofragment:mode=always -o whatif.tape
      pagetape replay base.tape --explain
    """
    source = Tape(tape)
    stack, parts = options.on_nodes([source], node_map, presets.expand(policies))
    memory_policies = _told(source, numa_maps) if numa_maps else ()
    run = Run(kernel, stack, reclaim, policy_libs, prefer, memory_policies, parts)
    options.check_policies(run.policies, policy_libs)
    console.report(kernels.note(source, kernel))
    if explain and (reclaim != "R0" or not is_own(source, run)):
        raise click.BadParameter(
            "only of a run under the tape's own kernel and policy, and R0",
            param_hint="--explain",
        )
    error = None
    if out is not None:
        output.check_free(out, replace=force)
        check(source, run)
        if not is_own(source, run):
            with console.progress("model error") as bar:
                error = model_error.measure(source, out, bar)
    with console.progress("replay") as bar:
        told = {"inferred": inferred(source), "preferences": preferences(source)}
        result = play(source, run, out, replace=force, progress=bar, **told, model_error=error)
    if explain:
        result["first_divergence"] = divergence.explain(source, **told)
    loss = Loss.of(source)
    if as_json:
        answer.emit(result | {"lost": loss.total, "output": str(out) if out else None})
        return
    lost = Loss(loss.total, loss.by_cpu, result["anomalies"])
    click.echo(f"{_text(result)}\n{lost}")
    if explain:
        click.echo(f"\n{_wrong_page(result['first_divergence'])}")
