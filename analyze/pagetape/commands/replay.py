# SPDX-License-Identifier: Apache-2.0
"""pagetape replay: play a tape through the allocator model."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pagetape import answer, console
from pagetape.commands import completion, model_options, options
from pagetape.replaying import PREFERENCES, RECLAIM_AUTO, RECLAIM_MODES, presets

if TYPE_CHECKING:
    from pagetape.replaying.playback import Run
    from pagetape.schemas.tape import Tape


def _preference(found: dict[str, Any]) -> str:
    """The preferred nodes of the requests in words; empty for a machine with one node."""
    if not found["requests"]:
        return ""
    share = answer.share(
        found["requests"] - round(found["landed"] * found["requests"]), found["requests"]
    )
    known = answer.amount(found["known_threads"], "thread")
    return (
        f"preferred node ({found['how']}): the CPU's for {share} % of the requests, for the others "
        f"the node that served them ({answer.amount(found['landed_threads'], 'thread')})"
        + (f"; known for {known}" if found["known_threads"] else "")
        + "\n"
    )


def _start(coverage: dict[str, int] | None) -> str:
    """A line about a start from hindsight."""
    from pagetape.replaying import hindsight

    return f"start from /proc: {hindsight.words(coverage)}\n" if coverage else ""


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
    return "\n".join([line, *(f"  {text}" for text in first["explanation"])])


def _counters(result: dict[str, Any]) -> str:
    from pagetape.asking.phrase import between, number

    rows = []
    for name, total in result["totals"].items():
        value = number(total["value"])
        if total["median"] is not None:
            value = between(total["median"], total["low"], total["high"])
        rows.append((name, value, total["tier"]))
    return f"{answer.table(('total', 'value', 'tier'), rows)}\n\n"


def _text(result: dict[str, Any], counters: bool) -> str:
    from pagetape.tapes import kernel_rows

    return (
        f"kernel {kernel_rows.named(result['kernel'])}, policy {' + '.join(result['policies'])}, "
        f"reclaim {result['reclaim']}: {answer.amount(result['events'], 'event')}\n"
        f"{''.join(f'{line}{chr(10)}' for line in result['kernel_warnings'])}\n"
        f"{_counters(result) if counters else ''}"
        f"{_rewritten(result)}"
        f"{_preference(result['preference'])}"
        f"{_start(result['hindsight'])}"
        f"{''.join(f'synthetic: {what}{chr(10)}' for what in result['synthetic'])}"
        f"not modelled: {', '.join(result['not_modelled'])}\n"
    )


def _answer(result: dict[str, Any], run: Run) -> str:
    """What the policies decided, and the headline metrics."""
    from pagetape.asking import headline, no_verdict, policy_effect
    from pagetape.replaying.prediction import label
    from pagetape.tapes import fallback_unit

    found = headline.headlines(result["metrics"])
    notes = fallback_unit.why_not(result), no_verdict.of_run(result)
    return "\n".join(
        [
            *policy_effect.lines(result["policies_effect"]),
            "",
            *headline.sentences(found, None if result["own"] else label(run)),
            *filter(None, notes),
        ]
    )


def _not_followed(result: dict[str, Any]) -> str:
    """What the anomalies mean for the answer; empty without one."""
    if not result["anomalies"]:
        return ""
    share = 100 * result["anomalies"] / max(result["events"], 1)
    often = f"{share:.2f} %" if share >= 0.01 else "less than 0.01 %"
    return (
        f"\n{often} of the events contradict the model, which takes or frees other pages there, or"
        " none (kinds: pagetape schema anomaly)"
    )


def _known_preferences(tape: Tape, numa_maps: Path) -> tuple[tuple[int, str], ...]:
    """The preferred node of the tape's threads, from the file of --numa-maps."""
    from pagetape import proc_copies
    from pagetape.numa_maps import parse
    from pagetape.replaying import preference
    from pagetape.schemas.tape import TapeError
    from pagetape.tapes import regular

    text = regular.read(numa_maps, proc_copies.TEXT_MB << 20).decode("utf-8", "replace")
    rows = parse(text)
    if not rows:
        raise TapeError(
            errno.EINVAL, f"{numa_maps}: not the output of grep -H '' /proc/*/numa_maps"
        )
    tasks = {task[number] for task in tape.rows("task") for number in ("pid", "tgid")}
    if tasks and tasks.isdisjoint(row["pid"] for row in rows):
        raise TapeError(
            errno.EINVAL, f"{numa_maps}: none of its processes is on {tape.path}: of another boot?"
        )
    return tuple(sorted(preference.known_preferences(tape, rows).items()))


def _changing(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The rules of --rewrite that change something; BadParameter for one that cannot be read."""
    from pagetape.conditions import RuleError
    from pagetape.replaying import rewrite

    try:
        found = tuple(rule.text for rule in rewrite.rules(texts))
    except RuleError as e:
        raise click.BadParameter(str(e), param_hint="--rewrite") from None
    for text in texts:
        if text not in found:
            console.report(f"the rule '{text}' changes nothing, and is left out")
    return found


def _rewritten(result: dict[str, Any]) -> str:
    """A line about each rule, and one about the requests; empty without a rule."""
    if not (made := result.get("rewritten")):
        return ""
    kept = made["kept"]
    also = f"; {kept:,} stay, whose block was taken before their event" if kept else ""
    lines = [f"rewrite: {rule}" for rule in result["rewrite"]]
    nr = answer.amount(made["requests"], "request")
    return "".join(f"{line}\n" for line in [*lines, f"rewritten: {nr}{also}"])


@click.command("replay")
@options.tape
@model_options.kernel
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="SPEC",
    shell_complete=completion.policies,
    help="Policy: name, or name:key=value,key=value. Repeatable.  [default: mainline]",
)
@click.option(
    "--rewrite",
    "rules",
    multiple=True,
    metavar="RULE",
    help="What if a caller had asked otherwise: 'CONDITION and CONDITION : CHANGE', as 'task ~ db"
    " and order = 3 : order = 0 x 8'. Conditions: task, cgroup, pid, order, migratetype, gfp has or"
    " lacks FLAG, time. Changes: order = N x TIMES, migratetype = NAME, drop FLAG, add FLAG, drop."
    " Repeatable: the first rule that fits a request counts.",
)
@model_options.policy_libs
@click.option(
    "--reclaim",
    type=click.Choice((RECLAIM_AUTO, *RECLAIM_MODES)),
    default=RECLAIM_AUTO,
    show_default=True,
    help="auto: R1 for policies and kernels that act through reclaim or compaction (tier B), if "
    "the tape recorded reclaim; R0 for others. R0: reclaim frees pages at the recorded times; "
    "wakes and boosts are only counted, and tier B gets no verdict. "
    "R1: the model's kswapd and stalled allocations reclaim the recorded pages when the model "
    "needs them, then the oldest pages of requests with the same gfp flags, and its kcompactd "
    "moves pages. R2: as R1, but then the oldest pages of every MOVABLE request (synthetic).",
)
@click.option(
    "--prefer",
    "preferred",
    type=click.Choice(PREFERENCES),
    default="auto",
    show_default=True,
    help="Preferred node of requests that do not name one. cpu: the CPU's node. landed: the node "
    "that served the request. auto: cpu, but landed for threads that seem to be under a memory "
    "policy: other nodes served more than 2 % of their requests while the CPU's had memory.",
)
@click.option(
    "--numa-maps",
    type=options.PATH,
    metavar="FILE",
    help="Memory policies of the recorded processes: the output of "
    "grep -H '' /proc/[0-9]*/numa_maps. --prefer auto uses them instead of a guess.",
)
@click.option(
    "--nodes",
    "node_map",
    metavar="CPUS/CPUS...",
    help="Play a tape of one node as a machine of several, with these CPUs on each node: 0-3/4-7. "
    "Adds the policy fake_numa with this map (synthetic).",
)
@click.option(
    "--assisted",
    is_flag=True,
    help="Also feed what the recorded policy decided, as later events prove it: sizes of drains, "
    "limits of per-CPU lists, boosts. Shows how exact the model can be; no basis for a what-if.",
)
@model_options.ensemble
@click.option(
    "--explain",
    is_flag=True,
    help="Explain the first page that differs from the kernel's page, with the states of kernel "
    "and model around it. Needs the tape's own kernel and policy, and R0.",
)
@options.output("OUT.tape", "Store the run as a tape.  [default: print the answer only]")
@options.force
@click.option("--counters", is_flag=True, help="Also print every counter of the run.")
@options.json
def command(
    tape: Path,
    kernel: str,
    policies: tuple[str, ...],
    rules: tuple[str, ...],
    policy_libs: tuple[str, ...],
    reclaim: str,
    preferred: str,
    numa_maps: Path | None,
    node_map: str | None,
    assisted: bool,
    ensemble_size: int,
    explain: bool,
    out: Path | None,
    force: bool,
    counters: bool,
    as_json: bool,
) -> None:
    """Play a tape through the allocator model and say what changed.

    The requests come from the tape; the model makes every decision. OUT.tape has the same
    tables as the input, so all reports and compare work on it. Tier A is placement. Tier B
    is feedback of reclaim and compaction, which only R1 and R2 model. "not modelled" lists
    the metrics that no replay predicts, such as refaults.

    The answer has a sentence for each policy: what it decided, or why it never had a choice.
    Then it compares the headline metrics with the recording and with a replay under the
    recording's own rules. pagetape runs that replay once and caches its figures. The OUT.tape of
    a what-if also holds them, as the model's error on this recording.

    --rewrite puts other requests in the place of recorded ones; pages are freed when the originals
    were. A request that failed in the recording fails again. No request gets more pages than it
    had.

    \b
    Example:
      pagetape replay base.tape --policy nofragment:mode=always -o whatif.tape
      pagetape replay base.tape --rewrite 'task = "db" and order = 3 : order = 0 x 8'
      pagetape replay base.tape --explain
    """
    from pagetape.asking import headline
    from pagetape.replaying import divergence, kernels
    from pagetape.replaying.playback import NewTape, Run, Source, check, in_mode, is_own
    from pagetape.replaying.prediction import predict
    from pagetape.replaying.validation import inferred, preferences
    from pagetape.schemas.tape import Tape
    from pagetape.tapes import absent, origin, output
    from pagetape.tapes.loss import Loss

    source = Tape(tape)
    loss = Loss.of(source)  # an unreadable tape leaves no output
    stack, parts = model_options.on_nodes([source], node_map, presets.expand(policies))
    memory_policies = _known_preferences(source, numa_maps) if numa_maps else ()
    model_options.check_policies(stack, policy_libs)
    run = Run(kernel, stack, "R0", policy_libs, preferred, memory_policies, parts, assisted)
    run = replace(run, rewrite=_changing(rules))
    check(source, run)
    if out is not None:
        output.check_free(out, replace=force, inputs=[tape])
    console.report(kernels.note(source, kernel))
    run = in_mode(source, run, reclaim)
    check(source, run)  # the mode may need what the tape lacks
    if explain and (run.reclaim != "R0" or not is_own(source, run)):
        raise click.BadParameter(
            "needs the tape's own kernel and policy, and R0",
            param_hint="--explain",
        )
    if out is not None:
        console.report(origin.replaced(out, source))
    console.report(absent.of_event_set(source))
    given = Source(source, inferred(source), preferences(source))
    new = NewTape(out, replace=force) if out else None
    result = predict(given, run, ensemble_size, new, console.progress)
    if explain:
        result["first_divergence"] = divergence.explain(given, run)
    if as_json:
        result["headline"] = headline.headlines(result["metrics"])
        answer.emit(result | {"lost": loss.total, "output": str(out) if out else None})
        return
    lost = replace(loss, kinds=result["anomaly_kinds"])
    about = f"{_text(result, counters)}\n{lost}{_not_followed(result)}"
    answer.say(f"{about}\n\n{_answer(result, run)}")
    if ensemble_size and loss.unmeasured:
        answer.say(loss.unmeasured)
    if explain:
        answer.say(f"\n{_wrong_page(result['first_divergence'])}")
