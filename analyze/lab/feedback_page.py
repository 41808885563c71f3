# SPDX-License-Identifier: Apache-2.0
"""Writes docs/feedback.md from the results of feedback.py."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from statistics import median
from typing import Any

from table import grid

from pagetape import answer
from pagetape.asking import interval
from pagetape.asking.phrase import between

Result = dict[str, Any]

_WITHIN = 1.5

_HEAD = """# The feedback model beside recordings

How accurate is the model's own reclaim (`pagetape replay --reclaim R1`)?
`make feedback FEEDBACK_TAPES=DIR` measures it and writes this page. The rounds of kswapd and the
turns of requests follow the kernel; pace and yield are those that each recording has of its own
reclaim at that time. All figures of the
model are tier B. Written {date} on Linux {release}; the machine also ran other
work.
"""

_BOOSTS = """## Watermark boosts on and off: predicted and measured

The same load (`load extfrag`, 25 s) was recorded several times on this machine,
with `vm.watermark_boost_factor` at 15000 and at 0 in turns. Equal runs differ by a factor
of two and more, so only larger differences are significant.
"""

_PREDICTED = """From one recording with either factor, the model predicts the effect of both
factors: `pagetape replay T.tape --reclaim R1 --policy mainline:boost_factor=0`. For kernels
that boost at every fallback, add `--kernel 5.10`.
"""

_TRIED = """From a recording of either kind, the model predicts three effects.
Without boosts, wakes of kcompactd nearly stop. On kernels since 6.15, where only attempts to
claim a pageblock boost, the factor has little effect on fallbacks. On older kernels it has a
large effect. The
series that added boosts and NOFRAGMENT to 5.0 measured 93 to 98 % fewer fallbacks
(`pagetape report extfrag.reduction`). The model overstates the wakes of kcompactd by boosts by
a factor of two and more.
"""

_HALVES = {
    "": "Recordings that took part in the development",
    "seen": "The seen half of the corpus, which took part in the development",
    "unseen": "The unseen half of the corpus, which took no part in the development",
    "calibration": "The recordings for the margins of intervals",
}

_OWN = """## Reclaim under the recording's own rules

Recorded, and by the model with `--reclaim R1`: the median of an ensemble, with its calibrated 80 %
interval. `within` is a difference of the median by a factor of {within} at most. The first call
since kswapd's last pass or sleep wakes it. Later calls find it awake; after its nap timer has
expired and while it waits for a CPU, they emit the event and wake nobody.
Fallbacks are below pageblock order. Those of R0, with recorded reclaim, show what R1 adds to the
error.
"""

_WHY = """## Results outside, and their causes

- Boosts. On guest-6.1-exact, boosts cause 58 of 69 calls of kswapd, 15 of them within 1.1 s
  for two pageblocks of zone DMA that change their migratetype at every fallback. The block that
  a fallback takes depends on the accuracy of the free run (see fidelity.md).
- Direct reclaim. At each recorded begin, the model reclaims only if it has no page for the request
  either. On recording 11 of the seen half, the kernel's counter of free pages is 50 to 180 pages
  below the mark at these begins. The model's is within some hundreds of it, so the model reclaims
  for other requests: 6 of 67 begins at order 0 found it short, and requests near them did 130
  reclaims.
- vm.defrag_mode. With it, requests for single MOVABLE pages reclaim because no MOVABLE page is
  free, far above the watermarks. In a live recording the kernel has none at each of the begins
  looked at, with 21,000 to 33,000 UNMOVABLE pages free. The model has 6,000 to 12,000 MOVABLE ones
  free, so these requests find a page.
- Boosts that only the model has. On recording 31 a boost of 3,584 pages makes the model's kswapd
  reclaim more than the record's. The queue is then empty, the pass lasts longer, and the raised
  min mark causes direct reclaims in vain: about 190, recorded 3. Counting pages that the record's
  scans would have found as free ends these passes, but mean CRPS goes from 0.27 to 0.42. Counting
  them towards the boost alone does not bring more counts within. Neither is done.
- Turns of a request. In the model one request takes all its turns at one moment, up to 60 direct
  reclaims on recording 30. With kswapd at work for the recorded time of each, and on the CPU of the
  recorded kswapd, the counts within go from 70 to 76 of 90 on the seen half, and from 67 to 65 of
  85 on the unseen one. CRPS of fallbacks goes from 0.26 to 0.29, and from 0.19 to 0.22. Neither is
  done.
- Several recordings of the corpus. The tables above are of recordings made on 2026-11-28, two at a
  time, on a busy machine. Seven were recorded again: on 14, 20, c20, c24 and c36 the kernel ended
  the load for lack of memory, 33 panicked at boot, and 26 lost events. c36 failed twice. R1 and the
  margins had their present form before. R0's whole pageblocks for requests of 7.2 came after; of
  the unseen half they changed only R0's fallbacks of 28, from 7.5 to 1.5 (recorded 13). Notes here
  on single recordings are of earlier recordings of the same plan.
  On the set before, also later than the margins, R1 had 73 of 90 counts (81 %) of the unseen half
  within, 61 of 80 of the seen half and 141 of 175 of those for the margins, and fallbacks in R0's
  interval on 14 of the 15 of the unseen half where R0 is right. Only its rules for vm.defrag_mode
  have changed since. On those of 2026-11-27 and 28, with which the changes before and the margins
  were chosen, it had 64 of 80 (80 %), 65 of 80 and 146 of 170, and 11 of 14. On all three sets 211
  of 260 counts (81 %) of the unseen half are within, 195 of 250 (78 %) of the seen half and 417 of
  520 (80 %) of those for the margins, and fallbacks are in R0's interval on 36 of 41. With
  an earlier set of those that begin with /proc it would be 56 of 80. Before the last changes the
  counts within on them were, by version: of 2026-11-26 56 of 80 (70 %), 58 of 80, and 126 of 160 of
  32 recordings for the margins; with scans of the same time 54, 55 and 126, and 138 of 170 with two
  recordings more; with empty lists and the time of large blocks 54, 58 and 130 of 170; with the
  pages of shrinkers 57, 58 and 133; with the oldest pages of their kinds 55, 61 and 135; with
  rounds of kswapd in step and pauses of kcompactd by the record 55, 61 and 145. On yet another
  recording of the unseen half the version of that time had 65 of 90 (72 %). Figures of different
  recordings of the same plan thus differ by more than those of the versions.
- Starts. The recordings that begin with /proc were made anew on 2026-11-28, with a recorder that
  reads /proc while events are recorded. It used to read /proc first, and the first event came 1 to
  8 s after the snapshot: pages that came or went meanwhile were unknown for good. One step ahead
  the model profits (c01: 98.1 instead of 94.1 % of the pages taken under the zone lock), but its
  counts under R1 do not: with the same engine 58 of 75 were within on the old recordings outside
  the unseen half, 55 on the new ones. An exact start does not help them either: 35 recordings with
  an exact snapshot, played from what /proc would have shown at that moment (proc_start.py), have
  145 of 175 counts within, from the snapshot itself 142. So the loads and kernels of these
  recordings make the difference, not their starts. In the tables above 46 of 55 counts of the
  unseen half are within on recordings with an exact start, and 28 of 35 on those with /proc; of the
  others 150 of 195, and 49 of 70.
- Scans of the same time, and one reclaim of a task at a time. While the record's kswapd scans, the
  model's pass takes that scan; it used to take one after the other, also long after. A request that
  comes before its task's last reclaim would end is part of that reclaim. This was chosen on earlier
  recordings: 69 instead of 62 of 85 counts of the seen half were within, and mean CRPS of the
  fallbacks of 33 others was 0.52 instead of 0.70 (standard error of the difference 0.09). On the
  32 above mean CRPS is 0.38 instead of 0.46 (0.06) for fallbacks, and 0.30 instead of 0.34 (0.03)
  for the counts, but no more counts are within. On recording 01 of the unseen half direct reclaims
  are 53.5 instead of 170.5 (recorded 3), but passes 2 instead of 8 (recorded 7). Counting a
  request's own turns once as well looked better on the seen half, but not on the unseen one.
- Waits of woken daemons, as recorded at that time instead of a quantile of the whole recording:
  61 of 85 and 110 of 155 counts are within, but mean CRPS of the checked metrics goes from 0.35 to
  0.38 and from 0.38 to 0.41. It is not done.
- Running ahead. With a scan that gets no further in the recorded frees than the record's kswapd at
  that time, counts within went from 63 to 59 of 85. Pages that come only at the end of a reclaim
  brought 52 instead of 54. Neither is done.
- Pages that compaction moves twice. No event records where the first move put a page. The model
  frees one page at each further move, and at each failed one: 22,870 too many on recording 16.
  Without these frees the model's pages agree with the record's within 700 on recording 16 (5,100
  before). But mean CRPS goes from 0.27 to 0.36, with ten times the recorded fallbacks on 17 and
  36. It is not done.
- Passes over empty lists. With all pages in zone MOVABLE, a pass for zone NORMAL finds nothing to
  scan. It ends after 0.1 ms and begins anew, up to 16 times, until a direct reclaim finds pages and
  sets the failures back: 957 of 1,265 passes of recording 02, 478 of 487 of c12. Such a pass leaves
  only the calls of shrinkers on the record, so the model took the scans of other passes: 14 passes
  on c12. It now takes the empty lists from those calls, and has 376. In the model a direct reclaim
  in vain owes its pages to the zone, which then counts them as free, so that kswapd sleeps. Without
  the debt, the requests would reclaim in vain one by one. Leaving the debt out of kswapd's own
  check alone changed passes by 2 % on four recordings; it is not done.
- Shrinkers. On 5.10 the shrinker of inodes frees their page cache: 19 to 79 % of what kswapd frees
  on five of nine recordings, also in zones that its scans do not reclaim; on c02 it frees zone
  MOVABLE, while direct reclaims for other zones go on. Such a page is now freed at its recorded
  time while the model's kswapd is in a pass, else after the scans of its next round or by a direct
  reclaim. 193 instead of 190 of 250 counts of the recordings outside the unseen half are within.
  Pages freed at the begin of a pass only, on a guest whose lists are empty, stayed in use: 317
  fallbacks instead of 27, recorded 24. Such a record now shows passes as long as their calls of
  shrinkers. Freed at a round by the kernel's share (do_shrink_slab), the pages come too late: 31
  instead of 34 of 45 counts of 5.10.
- Direct reclaims at a time. Where there are many, 80 to 94 % begin while another one runs, and most
  take 10 to 100 ms. In the model the pages come at the begin. With the pages at the end, 188
  instead of 190 of 250 counts are within, with mean CRPS 0.294 instead of 0.298 (0.005), and that
  of fallbacks 0.45 instead of 0.47 (0.02). It is not done.
- The direct reclaim of its own task. With the duration and yield of the reclaim that the same task
  has on the record at that time, and as time before its request, 186 instead of 190 of 250 counts
  of the recordings that are not of the unseen half are within. It is not done.
- Large blocks. With huge pages the model's kswapd freed ten times as many pages per millisecond of
  its scans as the record's, because a block took the time of its first pages. It now takes the time
  of all, up to that of the recorded scan: on c28 3.2 pages, recorded 3.4. By the counts alone that
  would not have been done: of 50 recordings 190 instead of 193 of 250 are within, with mean CRPS
  0.30 instead of 0.28 (standard error of the difference 0.007), and that of fallbacks 0.47 instead
  of 0.51 (0.03). A kswapd that is too fast made up for pages that the queue lacks. More time still,
  for each 64 pages of a block that of a recorded scan, makes the mean CRPS of the counts 0.30, too.
- Fewer passes. The model's kswapd has 12 % fewer passes than the record's (mean of the logarithms
  on 50 recordings, standard error 4 %), and kcompactd 11 % fewer runs (6 %). Before three changes
  it was 15 and 27 %. kcompactd of 5.10 checks for requests all the time; the model's slept for 32 s
  after proactive compaction in vain, as since 5.15. With that, 5 runs instead of 0 on recording 06
  (recorded 7). On 6.1 and later the model's kcompactd slept so more often than the record's,
  because the score of a small zone depends on one free pageblock. The pause now ends with the
  record's next check: on 50 recordings mean CRPS of the counts is 0.226 instead of 0.239 (standard
  error of the difference 0.007), that of fallbacks 0.43 instead of 0.44 (0.009). The third change
  is the end of a pass, below.
- Pages beyond the recorded ones. The model's reclaim could free only the pages that the record's
  did. Where it was ahead, it had none left, and requests reclaimed in vain. It now goes on with the
  oldest pages of the same kinds of movable request. On the 50 recordings outside the unseen half
  mean CRPS of the counts is 0.271 instead of 0.301 (standard error of the difference 0.011), that
  of fallbacks 0.42 instead of 0.45 (0.02), and 197 instead of 193 of 250 counts are within. With
  every movable request (R2) it is 0.268 and 0.45; with requests whose pages reclaim frees more
  often than their owners, 0.280 and 0.44. On recording 25, 96 % of the reclaimed pages are older
  than the recording, and the oldest of the tape are a poor stand-in: 132 direct reclaims instead of
  259.5, recorded 61. Leaving these pages out of direct reclaims that find nothing on the record
  changes nothing.
- Direct reclaims in vain. On guests without page cache and swap, requests at the min mark reclaim
  again and again and find nothing: 326 and 694 direct reclaims on two of 6.1, the model has 0 and
  2. At these times the model has 4 to 100 pages more than the mark wants, and the kernel fewer.
- Drains after a direct reclaim. A request that lacks a page after its reclaim drains all per-CPU
  lists (__alloc_pages_direct_reclaim). On the record few do, because other tasks reclaim or wait
  meanwhile: 104 of 649 direct reclaims up to order 3 on 18 recordings of 6.1 to 7.3, and 305 of 581
  above. In the model no time passes, so on c32 nearly all of them drain. The refills after the
  drains steal pages one by one: 7,562 fallbacks, recorded 2,970. With drains only where the
  record's requests drain up to order 3, and with the pages that kswapd frees during a reclaim there
  at its begin, c32 has 3,860, but c30 394 instead of 256 (recorded 31). On 51 recordings outside
  the unseen half mean CRPS of the counts is 0.171 instead of 0.173 (standard error of the
  difference 0.003), that of fallbacks 0.352 instead of 0.357 (0.020). Fallbacks under R1 are in the
  interval of R0 on 37 instead of 36 of the 43 where R0 is right. It is not done.
- Passes and sleeps. The model reclaims a page early if the page is already in use. It is ahead of
  the record's reclaim at times, and behind at others: by up to 5,200 and 4,500 pages on recording
  31, by 3,300 and 2,200 on 24. On recording 06 passes of the kernel end when zone DMA is above its
  mark: its free pages stay within 60 of it, while DMA32 lacks 1,500. The model's zone DMA does not
  change there, and its pass goes on for 1.1 s.
- Pages that are not in use yet. A pass that runs ahead of the record finds no page in the queue,
  although the node's lists are full. With another page of the zone in its place, which stays in use
  when the record frees it, fewer members of vm.defrag_mode run out of pages on the bundled server
  tape (2 of 32 instead of 5). But on the seen half mean CRPS goes from 0.26 to 0.28, and the counts
  within from 53 to 50 of 68. It is not done.
- Scans of many pages. Linux 7.3 scans up to 256 pages at once, of which the model takes 64 at the
  same pace and then goes on to the next recorded scan. Using up each recorded scan first brings 51
  instead of 53 of 68 counts within, and a CRPS of 0.27 instead of 0.26. It is not done.
- The end of a pass. On recording c14 the record's kswapd gives up at priority 1 after 1,834 pages,
  and begins anew. The model's round had the lists of an earlier time, went on with the scans of the
  next pass, and lasted from 1.9 to 11.3 s: 3 passes, recorded 14. Now it gives up where the
  record's does, and a scan takes all pages that the recorded one scanned, so that the rounds keep
  step: 10.5 passes. On 50 recordings mean CRPS of the counts is 0.24 instead of 0.27 (standard
  error of the difference 0.01), that of fallbacks 0.44 instead of 0.42 (0.025). Passes that end
  because the node is balanced are the other case. The kernel looks at the watermarks between rounds
  only. On c03 the record's kswapd began anew with small rounds, and the model's was in a large one:
  one pass of 9.4 s with 22,525 pages, recorded three. Now the model's round ends there if its node
  is balanced. On 50 recordings mean CRPS of the counts is 0.205 instead of 0.227 (0.008), that of
  fallbacks 0.43 instead of 0.46 (0.045), and 206 instead of 197 of 250 counts are within. Looking
  at the end of every recorded round brings 205, with CRPS 0.223; it is not done. An earlier version
  of this page said that events of kswapd were lost there. That was wrong: a boost that validate
  takes as ended is still there, as later direct reclaims above the plain mark show.
- Runs of kcompactd. kcompactd finds a request from a kswapd that goes to sleep at its own next
  check. The number of these checks depends on all of the above.

Not modelled: which pages fail to migrate, beyond their share;
throttling; the limits of dirty pages,
beyond the calls that they caused on the record. `pagetape replay --json` lists what no replay
predicts.
"""

_BESIDE = """### Watermarks and nodes: recorded, R0 and R1

Requests at which no zone was above its low or its min watermark, and requests that another node
than the preferred one served. `validate` counts them for the record, from the state that it
follows; R0 and R1 are medians of the ensembles with their 80 % intervals. A recording without an
exact start and without one from hindsight has no recorded side.
"""

_COUNTERS = {
    "below_low": "below low",
    "below_min": "below min",
    "remote_node": "from another node",
    "lower_zone": "from a lower zone",
}

_NAMES = {
    "passes": "kswapd passes",
    "sleeps": "kswapd sleeps",
    "kcompactd_wakes": "kcompactd runs",
    "direct_reclaims": "direct reclaims",
    "wakeups": "kswapd woken",
}


def _factor(recorded: int, model: int) -> str:
    """The factor between two counts; a difference of one counts as within."""
    low, high = sorted((recorded, model))
    if high - low <= 1:
        return "within by one"
    off = high / low if low else float("inf")
    return "within" if off <= _WITHIN else f"**{off:.1f}**"


def _is_near(recorded: int, model: float) -> bool:
    return _factor(recorded, round(model)).startswith("within")


def _log(count: float) -> float:
    return interval.scaled(count, "events")


def _live(pairs: dict[str, Result]) -> str:
    rows = []
    for name, result in pairs.items():
        counts = result["recorded"]
        columns = ("fallbacks", "kcompactd_asked", "kcompactd_wakes", "passes", "sleeps")
        cells = (f"{counts[column]:,}" for column in (*columns, "direct_reclaims"))
        rows.append([name, f"{result['factor']:,}", *cells])
    columns = ("recording", "factor", "fallbacks", "kcompactd woken", "kcompactd runs")
    return grid((*columns, "kswapd passes", "sleeps", "direct reclaims"), rows)


def _predicted(pairs: dict[str, Result]) -> str:
    rows = []
    for name, result in pairs.items():
        for setting, counts in result["model"].items():
            row, _, factor = setting.partition(" ")
            columns = ("fallbacks", "kcompactd_asked", "kcompactd_wakes", "passes", "sleeps")
            cells = [f"{counts[column]:,}" for column in (*columns, "direct_reclaims")]
            own = row == "auto" and int(factor) == result["factor"]
            kernel = "its own" if row == "auto" else row
            rows.append([name, kernel, f"{int(factor):,}{' (as recorded)' if own else ''}", *cells])
    columns = ("recording", "kernel", "factor", "fallbacks", "kcompactd woken", "kcompactd runs")
    return grid((*columns, "kswapd passes", "sleeps", "direct reclaims"), rows)


def _effect(name: str, row: str, model: Result) -> str:
    on, off = model[f"{row} 15000"], model[f"{row} 0"]
    change = on["fallbacks"] - off["fallbacks"]
    percent = answer.share(change, off["fallbacks"])
    changed = f"{change:+,}" if percent is None else f"{percent:+.1f} %"
    # The error was measured under the recording's own rules: it is no error bar for others.
    if row == "auto" and abs(change) <= off["fallbacks_error"]:
        changed += f" (within the model's error, {off['fallbacks_error']:,})"
    return (
        f"- {name}, {'its own kernel' if row == 'auto' else row}: boosts wake kcompactd"
        f" {on['kcompactd_asked']:,} times, without boosts {off['kcompactd_asked']:,};"
        f" fallbacks {changed}."
    )


def _effects(pairs: dict[str, Result]) -> str:
    """The modelled effects of boosts, one line each."""
    return "\n".join(
        _effect(name, setting.removesuffix(" 0"), result["model"])
        for name, result in pairs.items()
        for setting in result["model"]
        if setting.endswith(" 0")
    )


def _made(found: Result) -> str:
    return between(found["median"], found["low"], found["high"])


def _is_in(value: float, found: Result) -> bool:
    return bool(found["low"] <= value <= found["high"])


def _own(others: dict[str, Result]) -> str:
    rows = []
    for name, result in others.items():
        for column, words in _NAMES.items():
            found = result["own"][column]
            if "R1" not in found:
                continue
            recorded, made = found["recorded"], found["R1"]
            inside = "yes" if _is_in(recorded, made) else "no"
            factor = _factor(recorded, round(made["median"]))
            rows.append([name, words, f"{recorded:,}", _made(made), factor, inside])
        found = result["own"]["fallbacks"]
        if {"R0", "R1"} <= found.keys():
            inside = "yes" if _is_in(found["R1"]["median"], found["R0"]) else "no"
            words = f"{_made(found['R1'])}; R0: {_made(found['R0'])}"
            rows.append(
                [name, "fallbacks", f"{found['recorded']:,}", words, "-", f"{inside} (median, R0)"]
            )
    columns = ("recording", "", "recorded", "model", "off by a factor of", "in the interval")
    return grid(columns, rows)


def _share(nr: int, of: int) -> str:
    return f"{nr} of {of} ({100 * nr / max(of, 1):.0f} %)"


def _is_nearer(found: Result) -> bool:
    """Whether R1 is in R0's interval, or nearer to the recorded value than R0."""
    truth = _log(found["recorded"])
    r0, r1 = (abs(_log(found[mode]["median"]) - truth) for mode in ("R0", "R1"))
    return _is_in(found["R1"]["median"], found["R0"]) or r1 <= r0


def _left_out(members: list[float]) -> Iterator[tuple[float, float]]:
    """Each member, and the median of the others."""
    for number, member in enumerate(members):
        yield member, median(members[:number] + members[number + 1 :])


def chaos(counts: list[Result], fallbacks: list[Result]) -> tuple[float, float]:
    """The share, in percent, that a perfect model would have: of the counts within, and of the
    fallbacks in the interval of R0. Each member of R1 in turn is the kernel; R0's interval then is
    as wide as now, around that member."""
    near = [
        _is_near(round(member), others)
        for one in counts
        for member, others in _left_out(one["R1"]["members"])
    ]
    inside = []
    for one in fallbacks:
        truth, low, high = map(_log, (one["recorded"], one["R0"]["low"], one["R0"]["high"]))
        for member, others in _left_out(one["R1"]["members"]):
            inside.append(low - truth <= _log(others) - _log(member) <= high - truth)
    of_counts, of_fallbacks = (100 * sum(those) / max(len(those), 1) for those in (near, inside))
    return of_counts, of_fallbacks


def own_summary(others: dict[str, Result]) -> str:
    """How many counts and fallbacks are right."""
    counts = [
        found[column]
        for found in (result["own"] for result in others.values())
        for column in _NAMES
        if "R1" in found[column]
    ]
    near = sum(_is_near(one["recorded"], one["R1"]["median"]) for one in counts)
    inside = sum(_is_in(one["recorded"], one["R1"]) for one in counts)
    fallbacks = [
        found
        for found in (result["own"]["fallbacks"] for result in others.values())
        if {"R0", "R1"} <= found.keys()
    ]
    right = [one for one in fallbacks if _is_in(one["recorded"], one["R0"])]
    nearer = sum(map(_is_nearer, fallbacks))
    like, like_right = (
        sum(_is_in(one["R1"]["median"], one["R0"]) for one in those) for those in (fallbacks, right)
    )
    counts_limit, fallbacks_limit = chaos(counts, right)
    return (
        f"Of the counts, {_share(near, len(counts))} are within a factor of {_WITHIN} or off by"
        f" one, and {_share(inside, len(counts))} of the recorded values are in the 80 % interval."
        f" Fallbacks under R1 are in the interval of R0 on {_share(like, len(fallbacks))}"
        f" recordings, and there or nearer to the record than those of R0 on {nearer}; of the"
        f" {len(right)} where R0 is right, they are there on {like_right}."
        f" If each member of an ensemble in turn were the kernel, the median of the others would be"
        f" as right for {counts_limit:.0f} % of the counts, and for the fallbacks on"
        f" {fallbacks_limit:.0f} % of these {len(right)}: so far chaos goes in a perfect model."
    )


def _beside(others: dict[str, Result]) -> str:
    """The counters of the record, of R0 and of R1."""
    rows = []
    for name, result in others.items():
        for column, words in _COUNTERS.items():
            found = result["own"][column]
            recorded = found.get("recorded")
            values = [_made(found[mode]) if mode in found else "-" for mode in ("R0", "R1")]
            if recorded or any(value not in ("-", "0") for value in values):
                rows.append(
                    [name, words, "unknown" if recorded is None else f"{recorded:,}", *values]
                )
    return grid(("recording", "requests", "recorded", "R0", "R1"), rows)


def markdown(pairs: dict[str, Result], others: dict[str, Result]) -> str:
    """The page."""
    head = _HEAD.format(date=datetime.now(UTC).date(), release=platform.release())
    parts = [head.rstrip()]
    if pairs:
        parts += [_BOOSTS.rstrip(), _live(pairs), _PREDICTED.rstrip(), _predicted(pairs)]
        parts += [_effects(pairs), _TRIED.rstrip()]
    if others:
        parts.append(_OWN.format(within=_WITHIN).rstrip())
        for half in dict.fromkeys(result["half"] for result in others.values()):
            those = {name: one for name, one in others.items() if one["half"] == half}
            parts += [f"### {_HALVES[half]}", own_summary(those), _own(those)]
        parts += [_BESIDE.rstrip(), _beside(others)]
    return "\n\n".join([*parts, _WHY.rstrip()]) + "\n"
