# SPDX-License-Identifier: Apache-2.0
"""Damage to the tables of a tape: values, nulls, texts, enums, columns, types, rows, files.

Facts are the metadata of the table event.
"""

import json
import shutil
import zipfile
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
from damage import (
    JSON_VALUES,
    NO_FACTS,
    NUMBERS,
    TEXTS,
    blank,
    damage_bytes,
    flip,
    set_word,
    special_file,
    wrapped,
)
from inputs import GROUP_TABLE, GROUPS, store

from pagetape.schemas import TABLES

_FAVOURED = {
    *("event", "reclaim", "compaction", "zone", "pcp", "free_block", "pcp_page", "snapshot")
}


def _table_file(tape: Path, random: Random) -> Path:
    """A table, more often one of those that the engine reads."""
    files = sorted(tape.glob("*.arrow"))
    if random.random() < 0.6:
        files = [file for file in files if file.stem in _FAVOURED] or files
    return random.choice(files)


def _load(path: Path) -> pa.Table:
    """The table of a good file; of one without a footer, as far as it goes. Of a table in groups,
    it is the first batch."""
    try:
        file = pa.ipc.open_file(path)
        if GROUPS not in (file.schema.metadata or {}) or not file.num_record_batches:
            return file.read_all().combine_chunks()
        batch, about = file.get_batch_with_custom_metadata(0)
        metadata = {**file.schema.metadata, GROUP_TABLE: about[GROUPS]}
        return pa.Table.from_batches([batch]).replace_schema_metadata(metadata)
    except pa.ArrowInvalid:
        with path.open("rb") as file:
            file.seek(8)
            reader = pa.ipc.open_stream(file)
            batches = []
            try:
                while True:
                    batches.append(reader.read_next_batch())
            except (StopIteration, pa.ArrowInvalid, OSError):
                return pa.Table.from_batches(batches, reader.schema).combine_chunks()


def _array(table: pa.Table, column: int) -> pa.Array:
    chunks = table.column(column).chunks
    return pa.concat_arrays(chunks) if chunks else pa.array([], table.schema.field(column).type)


def _column(table: pa.Table, random: Random, fits: Callable[[pa.DataType], bool]) -> int | None:
    found = [i for i, field in enumerate(table.schema) if fits(field.type)]
    return random.choice(found) if found else None


def _rows(nr: int, random: Random) -> range:
    """One row, some neighbours, or all."""
    at = random.randrange(nr)
    return random.choice((range(at, at + 1), range(at, min(at + 50, nr)), range(nr)))


def set_values(table: pa.Table, random: Random) -> tuple[pa.Table, str]:
    """Numbers, or the indices of an enum."""
    at = _column(table, random, lambda t: pa.types.is_integer(t) or pa.types.is_dictionary(t))
    if at is None or not table.num_rows:
        return repeat_rows(table, random)
    field, array = table.schema.field(at), _array(table, at)
    coded = pa.types.is_dictionary(field.type)
    number = array.indices if coded else array
    size = number.type.bit_width // 8
    validity, buffer = number.buffers()
    data = bytearray(buffer.to_pybytes()[: size * len(number)])
    rows = _rows(len(number), random)
    how = random.choice(("value", "value", "value", "random", "reverse", "near"))
    value = random.choice(NUMBERS)
    if coded and random.random() < 0.8:  # mostly a label that there is
        value = random.randrange(len(array.dictionary) or 1)
    words = [data[i * size : i * size + size] for i in rows]
    if how == "reverse":
        words.reverse()
    for i, word in zip(rows, words, strict=True):
        if how == "random":
            word = wrapped(random.getrandbits(64), size)
        elif how == "near":
            word = wrapped(int.from_bytes(word, "little") + random.randint(-600, 600), size)
        elif how == "value":
            word = wrapped(value, size)
        data[i * size : i * size + size] = word
    made = pa.Array.from_buffers(number.type, len(number), [validity, pa.py_buffer(bytes(data))])
    if coded:
        made = pa.DictionaryArray.from_arrays(made, array.dictionary, safe=False)
    done = f"{how} {value if how == 'value' else ''} in {field.name}[{rows.start}:{rows.stop}]"
    return table.set_column(at, field, made), done


def set_nulls(table: pa.Table, random: Random) -> tuple[pa.Table, str]:
    """Nulls in a column, whether it is nullable or not; or no nulls in place of some."""
    at = random.randrange(table.num_columns)
    if not table.num_rows:
        return repeat_rows(table, random)
    field, array = table.schema.field(at), _array(table, at)
    rows = _rows(len(array), random)
    valid = bytearray(b"\xff" * (len(array) // 8 + 1))
    for i in rows:
        valid[i // 8] &= ~(1 << i % 8)
    if pa.types.is_dictionary(field.type):
        buffers = array.indices.buffers()
        indices = pa.Array.from_buffers(
            array.indices.type, len(array), [pa.py_buffer(bytes(valid)), *buffers[1:]]
        )
        made = pa.DictionaryArray.from_arrays(indices, array.dictionary)
    else:
        made = pa.Array.from_buffers(
            field.type, len(array), [pa.py_buffer(bytes(valid)), *array.buffers()[1:]]
        )
    return table.set_column(at, field, made), f"null {field.name}[{rows.start}:{rows.stop}]"


def set_texts(table: pa.Table, random: Random) -> tuple[pa.Table, str]:
    at = _column(table, random, lambda t: pa.types.is_string(t))
    if at is None or not table.num_rows:
        return set_values(table, random)
    field, texts = table.schema.field(at), table.column(at).to_pylist()
    text = random.choice(TEXTS)
    rows = _rows(len(texts), random) if len(text) < 1000 else range(1)
    for i in rows:
        texts[i] = text
    done = f"text {text[:40]!a} in {field.name}[{rows.start}:{rows.stop}]"
    return table.set_column(at, field, pa.array(texts, field.type)), done


_DICTIONARY_DAMAGE = (
    *("order", "remap", "drop", "add", "rename", "twice", "empty", "null", "other"),
)


def change_dictionary(table: pa.Table, random: Random) -> tuple[pa.Table, str]:
    """The labels of an enum: in another order, fewer, more, others, twice, empty."""
    at = _column(table, random, pa.types.is_dictionary)
    if at is None:
        return set_texts(table, random)
    field, array = table.schema.field(at), _array(table, at)
    labels = array.dictionary.to_pylist() or ["x"]
    indices = array.indices
    how = random.choice(_DICTIONARY_DAMAGE)
    if how in ("order", "remap"):
        order = list(range(len(labels)))
        random.shuffle(order)
        if how == "remap":  # the same rows, only written in another way
            places = {old: new for new, old in enumerate(order)}
            moved = [None if i is None else places[i] for i in indices.to_pylist()]
            indices = pa.array(moved, indices.type)
        labels = [labels[i] for i in order]
    elif how == "drop":
        del labels[random.randrange(len(labels)) :]
    elif how == "add":
        labels += [f"new_{i}" for i in range(random.choice((1, 200)))]
    elif how in ("rename", "null"):
        labels[random.randrange(len(labels))] = random.choice(TEXTS) if how == "rename" else None
    elif how == "twice":
        labels[-1] = labels[0]
    elif how == "other":
        others = random.choice([c for t in TABLES.values() for c in t.columns if c.labels])
        labels = list(others.labels)
    else:
        labels = []
    made = pa.DictionaryArray.from_arrays(indices, pa.array(labels, pa.utf8()), safe=False)
    return table.set_column(at, field, made), f"dictionary of {field.name}: {how}"


def change_columns(table: pa.Table, random: Random) -> tuple[pa.Table, str]:
    at, other = (random.randrange(table.num_columns) for _ in range(2))
    name = table.schema.field(at).name
    how = random.choice(("drop", "twice", "swap", "rename", "names", "add", "none", "reverse"))
    if how == "drop":
        table = table.remove_column(at)
    elif how == "twice":
        table = table.append_column(table.schema.field(at), table.column(at))
    elif how == "swap":
        order = list(range(table.num_columns))
        order[at], order[other] = order[other], order[at]
        table = table.select(order)
    elif how in ("rename", "names"):
        names = table.schema.names
        names[at] = random.choice(TEXTS) if how == "rename" else names[other]
        table = table.rename_columns(names)
    elif how == "add":
        new = random.choice(("new", "tape", "at"))
        table = table.add_column(at, new, [pa.array(range(table.num_rows))])
    elif how == "reverse":
        table = table.select(list(reversed(range(table.num_columns))))
    else:
        table = table.select([])
    return table, f"columns: {how} {name!a}"


_TYPES = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()),
    *(pa.float64(), pa.utf8(), pa.large_utf8(), pa.binary(), pa.bool_(), pa.null()),
    *(pa.dictionary(pa.int8(), pa.utf8()), pa.dictionary(pa.int64(), pa.utf8())),
    *(pa.list_(pa.uint64()), pa.timestamp("ns"), pa.decimal128(38, 2), pa.string_view()),
    *(pa.run_end_encoded(pa.int32(), pa.uint64()), pa.list_view(pa.uint64())),
)


def change_type(table: pa.Table, random: Random) -> tuple[pa.Table, str]:
    at = random.randrange(table.num_columns)
    field, kind = table.schema.field(at), random.choice(_TYPES)
    try:
        table.column(at).validate(full=True)  # after other damage, a cast may crash
        made = table.column(at).cast(kind, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        made = pa.nulls(table.num_rows, kind)
    return table.set_column(at, pa.field(field.name, kind), made), f"{field.name} as {kind}"


def repeat_rows(table: pa.Table, random: Random) -> tuple[pa.Table, str]:
    nr = table.num_rows
    if not nr:
        return table, "nothing"
    rows = _rows(nr, random)
    part = table.slice(rows.start, len(rows))
    how = random.choice(("twice", "remove", "end", "first", "reverse", "blank", "shuffle"))
    head, tail = table.slice(0, rows.stop), table.slice(rows.stop)
    if how == "twice":
        parts = [head, *[part] * random.choice((1, 3)), tail]
    elif how == "remove":
        parts = [table.slice(0, rows.start), tail]
    elif how == "end":
        parts = [head]
    elif how == "first":  # moved to the front: time goes backwards
        parts = [tail, head]
    elif how == "blank":
        parts = [table.slice(0, 0)]
    else:
        order = list(reversed(rows))
        if how == "shuffle":
            random.shuffle(order)
        parts = [table.slice(0, rows.start), table.take(order), tail]
    return pa.concat_tables(parts), f"rows {rows.start}-{rows.stop}: {how}"


def change_facts(table: pa.Table, random: Random) -> tuple[pa.Table, str]:
    """One value of the machine's facts, or the metadata as such."""
    metadata = dict(table.schema.metadata or {})
    how = random.choice(("value",) * 8 + ("version", "none", "text", "field"))
    key = b"pagetape.facts"
    if how == "version":
        version = random.choice((b"0", b"1", b"3", b"-1", b"", b"\xff", b"2.0", b"9" * 5000))
        metadata[b"pagetape.version"] = version
        done = f"version {version[:20]!r}"
    elif how == "none":
        metadata, done = {}, "no metadata"
    elif how == "text":
        text = random.choice(NO_FACTS)
        metadata[key], done = text, f"facts {text[:20]!r}"
    else:
        facts = inner = json.loads(metadata[key])
        place = ""
        while True:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            name = random.choice(keys)
            place += f".{name}"
            if isinstance(inner[name], dict | list) and inner[name] and random.random() < 0.7:
                inner = inner[name]
                continue
            if random.random() < 0.1 and isinstance(inner, dict):
                del inner[name]
                done = f"no fact {place}"
            else:
                if type(inner[name]) is int and random.random() < 0.5:
                    inner[name] = random.choice(NUMBERS)
                else:
                    inner[name] = random.choice((*JSON_VALUES, *TEXTS))
                done = f"fact {place} = {json.dumps(inner[name])[:40]}"
            break
        metadata[key] = json.dumps(facts).encode()
    return table.replace_schema_metadata(metadata), done


def unpacked(text: bytes) -> bytes:
    """A message among the metadata."""
    return zlib.decompress(b64decode(text))


def change_groups(table: pa.Table, random: Random) -> tuple[pa.Table, str]:
    """The table of the groups of a batch: a value, or some byte of the message."""
    metadata = dict(table.schema.metadata or {})
    if GROUP_TABLE not in metadata:
        return set_values(table, random)
    message = bytearray(unpacked(metadata[GROUP_TABLE]))
    if random.random() < 0.6:
        schema = pa.ipc.read_schema(pa.py_buffer(unpacked(metadata[GROUPS])))
        groups = pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(message), schema)])
        how = random.choice((set_values, set_values, set_nulls, repeat_rows))
        groups, done = how(groups, random)
        (batch,) = groups.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema)]
        message = bytearray(batch.serialize())
    else:
        done = random.choice((flip, blank, set_word))(message, random)
    metadata[GROUP_TABLE] = b64encode(zlib.compress(message))
    return table.replace_schema_metadata(metadata), f"groups: {done}"


TABLE_DAMAGE = (
    *(set_values,) * 8,
    *(change_groups, change_groups),
    *(set_nulls, set_texts, set_texts, change_dictionary, change_dictionary, change_columns),
    *(change_type, repeat_rows, repeat_rows, change_facts, change_facts),
)


def damage_table(tape: Path, random: Random) -> str:
    how = random.choice(TABLE_DAMAGE)
    file = tape / "event.arrow" if how is change_facts else _table_file(tape, random)
    table, done = how(_load(file), random)
    store(file, table, random.choice((1000, 1000, 7, 100_000)))
    return f"{file.stem}: {done}"


def damage_buffer(tape: Path, random: Random) -> str:
    """A word of one column's buffer in the file: validity, offsets, values or dictionary."""
    file = _table_file(tape, random)
    table = _load(file)
    at = random.randrange(table.num_columns)
    if not table.num_rows:
        return damage_bytes(file, random)
    array = _array(table.slice(0, 1000), at)
    data = bytearray(file.read_bytes())
    parts = list(enumerate(array.buffers()))
    if pa.types.is_dictionary(array.type):
        parts += [(10 + i, part) for i, part in enumerate(array.dictionary.buffers())]
    random.shuffle(parts)
    for number, part in parts:
        bytes_ = part.to_pybytes() if part else b""
        place = data.find(bytes_) if len(bytes_) >= 8 else -1
        if place >= 0:
            inner = bytearray(bytes_)
            done = random.choice((flip, blank, set_word, set_word))(inner, random)
            data[place : place + len(bytes_)] = inner[: len(bytes_)]
            file.write_bytes(data)
            return f"{done} of buffer {number} of {file.stem}.{table.schema.field(at).name}"
    return damage_bytes(file, random)


def swap_files(tape: Path, random: Random) -> str:
    one, other = random.sample(sorted(tape.glob("*.arrow")), 2)
    if random.random() < 0.5:
        shutil.copy(one, other)
        return f"{one.name} as {other.name}"
    moved = tape / "moved"
    one.rename(moved)
    other.rename(one)
    moved.rename(other)
    return f"swapped {one.name} and {other.name}"


def foreign_table(tape: Path, random: Random, home: Path) -> str:
    """A table of another good tape."""
    file = _table_file(tape, random)
    others = [path for path in sorted(home.glob(f"tape/*/{file.name}")) if path.is_file()]
    other = random.choice(others)
    shutil.copy(other, file)
    return f"{file.name} of {other.parent.name}"


def bomb(tape: Path, random: Random, home: Path) -> str:
    file = random.choice((tape / "event.arrow", _table_file(tape, random)))
    shutil.copy(home / "bomb.arrow", file)
    return f"2.2 GB of zeros as {file.name}"


def _in_one_file(tape: Path, random: Random) -> str:
    """The same tape in one file, as it is once closed; the archive may be damaged, too."""
    files = sorted(tape.iterdir(), key=lambda file: (file.name == "event.arrow", file.name))
    if not all(file.is_file() and not file.is_symlink() for file in files):
        return ""
    archive = tape.with_suffix(".zip")
    with zipfile.ZipFile(archive, "w") as out:
        for file in files:
            small = random.random() < 0.5 and file.stat().st_size <= 1 << 16
            out.write(file, file.name, zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED)
    shutil.rmtree(tape)
    archive.rename(tape)
    return f"; in one file {damage_bytes(tape, random) if random.random() < 0.6 else ''}"


def damage_tape(tape: Path, random: Random, home: Path) -> str:
    """One damage, or several, to a tape that is a directory or becomes one file."""
    done = _damage_directory(tape, random, home)
    return done + (_in_one_file(tape, random) if random.random() < 0.4 else "")


def _damage_directory(tape: Path, random: Random, home: Path) -> str:
    done = []
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        share = random.random()
        try:
            if share < 0.58:
                done.append(damage_table(tape, random))
            elif share < 0.72:
                done.append(damage_buffer(tape, random))
            elif share < 0.86:
                done.append(damage_bytes(_table_file(tape, random), random))
            elif share < 0.90:
                done.append(swap_files(tape, random))
            elif share < 0.93:
                done.append(foreign_table(tape, random, home))
            elif share < 0.985:
                done.append(special_file(_table_file(tape, random), random))
                break  # it may not be readable: nothing more is to be done with it
            else:
                done.append(bomb(tape, random, home))
                break
        except Exception:
            if not done:
                raise
            break  # the first damage left a file that nothing more can be done with
    return "; ".join(done)
