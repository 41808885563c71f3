# SPDX-License-Identifier: Apache-2.0
"""Latencies that the recorded command measured itself: lines of $PAGETAPE_SAMPLES.

A line is NAME,TS,NS,CPU,NODE,ORDER,FLAGS, the columns of the table `sample_latency`. CPU, NODE
and ORDER may be empty.
"""

from collections.abc import Callable

import pyarrow as pa

from pagetape.recording.capture import Sink
from pagetape.recording.workload import Workload
from pagetape.schemas import TABLES

TABLE = "sample_latency"


def parse(lines: bytes) -> pa.RecordBatch:
    """The rows in order of time; raises ValueError with the reason for a bad file."""
    from pyarrow import csv  # most recorded commands write no samples

    schema = TABLES[TABLE].arrow
    found = csv.read_csv(
        pa.BufferReader(lines),
        csv.ReadOptions(column_names=schema.names),
        convert_options=csv.ConvertOptions(column_types=schema, null_values=[""]),
    )
    for column in TABLES[TABLE].columns:
        if found[column.name].null_count and not column.null:
            raise ValueError(f"a line has no {column.name}")
    (batch,) = found.sort_by("ts").cast(schema).combine_chunks().to_batches()
    return batch


def write(workload: Workload, sink: Sink, warn: Callable[[str], None]) -> None:
    """Write the samples of a finished command, once. A bad file costs these alone."""
    lines, workload.samples = workload.samples, b""
    try:
        if lines:
            sink.write(TABLE, parse(lines))
    except ValueError as e:
        workload.no_samples = str(e)
    if workload.no_samples:
        warn(f"the samples of the command are not on the tape: {workload.no_samples}")
