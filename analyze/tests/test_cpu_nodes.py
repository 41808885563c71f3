# SPDX-License-Identifier: Apache-2.0
"""The nodes of CPUs that a recording does not say, by its events."""

from pathlib import Path

import pytest

from pagetape.schemas.tape import Tape, Writer
from pagetape.tapes import absent, cpu_nodes
from pagetape.tapes.machine import topology

_DEMO = Path(__file__).parent / "data/pressure.tape"


@pytest.fixture
def unknown(tmp_path: Path) -> Tape:
    """The demo tape as if imported without the file `nodes`."""
    whole = Tape(_DEMO)
    nodes = [node | {"cpus": [], "distance": []} for node in whole.facts["nodes"]]
    facts = {name: fact for name, fact in whole.facts.items() if name != "events"}
    with Writer(tmp_path / "unknown.tape", facts | {"nodes": nodes}) as tape:
        for name in whole.tables:
            for batch in whole.batches(name):
                tape.write(name, batch)
    return Tape(tmp_path / "unknown.tape")


def test_events_show_the_nodes_of_the_cpus(unknown: Tape) -> None:
    recorded = cpu_nodes.by_cpu(Tape(_DEMO))
    assert not cpu_nodes.is_unknown(Tape(_DEMO)) and cpu_nodes.is_unknown(unknown)
    assert len(set(recorded.values())) == 2
    assert cpu_nodes.by_cpu(unknown) == recorded
    assert topology(unknown)["cpu_nodes"] == topology(Tape(_DEMO))["cpu_nodes"]


def test_reports_say_that_the_nodes_are_inferred(unknown: Tape) -> None:
    assert any(line.startswith("no nodes of the CPUs") for line in absent.lines(unknown))
    assert not any(line.startswith("no nodes of the CPUs") for line in absent.lines(Tape(_DEMO)))
