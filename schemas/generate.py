# SPDX-License-Identifier: Apache-2.0
"""Turn schemas/*.toml into the C view of every table, and into the JSON that Python loads.

Usage: generate.py SCHEMAS_DIR OUT.h OUT.c OUT.json

Run by meson; needs nothing but the standard library. For each table the header
gets one struct of column pointers, enum constants, and an `extern const struct
table`; the source gets the descriptions that batch.c builds Arrow data from.
The JSON has tape.toml and the tables as they are: each command loads it, and
parsing TOML takes 50 times as long. OUT.d, beside OUT.h, tells ninja what was read.
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

C_TYPE = {
    "bool": "uint8_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "uint64": "uint64_t",
}
ARROW_FORMAT = {
    "bool": "C",
    "int8": "c",
    "uint8": "C",
    "int16": "s",
    "uint16": "S",
    "int32": "i",
    "uint32": "I",
    "int64": "l",
    "uint64": "L",
}

Toml = dict[str, Any]


def constant(*words: str) -> str:
    return "_".join(words).upper()


def values(table: Toml, column: Toml, tape: Toml, tables: list[Toml]) -> tuple[str, list[Toml]]:
    """The C name and the values of a column's enum; no values if it is none."""
    enum, own = column.get("enum"), column.get("values", [])
    name = f"{table['name']}_{column['name']}"
    if isinstance(own, str):  # the values of another column, as "table.column"
        other, _, own = own.partition(".")
        columns = next(t["column"] for t in tables if t["name"] == other)
        return name, next(c["values"] for c in columns if c["name"] == own)
    if enum == "kind":
        return f"{table['name']}_kind", table["kind"]
    if enum:
        return enum, tape["enums"][enum]
    return name, own


def has_strings(table: Toml) -> bool:
    """Tables with text are written from Python; C never sees them."""
    return any(column["type"] == "utf8" for column in table["column"])


def enum_lines(name: str, found: list[Toml]) -> list[str]:
    """The enum has no tag: rooms have a `struct zone` of their own."""
    out = ["enum {"]
    out += [
        f"\t{constant(name, value['name'])} = {i}, /* {value['doc']} */"
        for i, value in enumerate(found)
    ]
    out += [f"\t{constant('nr', name)} = {len(found)},", "};", ""]
    return out


def header(tape: Toml, tables: list[Toml]) -> str:
    out = [
        "/* Generated from the TOML files in schemas/. Do not edit. */",
        "#pragma once",
        '#include "batch.h"',
        "",
        f"#define TAPE_VERSION {tape['version']}",
        "",
    ]
    for name, found in tape["enums"].items():
        out += enum_lines(name, found)
        out[-1:] = [f"extern const struct labels {name}_labels;", ""]
    for name, names in tape["bits"].items():
        out += [f"enum {name}_bits {{"]
        out += [f"\t{constant(name, bit)} = 1u << {i}," for i, bit in enumerate(names)]
        out += ["};", f"#define NR_{name.upper()}_BITS {len(names)}"]
        out += [f"extern const char *const {name}_bit_names[];", ""]
    for table in tables:
        if has_strings(table):
            continue
        name = table["name"]
        for column in table["column"]:
            enum, found = values(table, column, tape, tables)
            if found and enum not in tape["enums"]:
                out += enum_lines(enum, found)
        out += [f"/* {table['doc']} */", f"struct {name}_columns {{"]
        for column in table["column"]:
            unit = f"{column['unit']}: " if "unit" in column else ""
            out.append(f"\t{C_TYPE[column['type']]} *{column['name']}; /* {unit}{column['doc']} */")
            if column.get("null"):
                out.append(f"\tuint8_t *{column['name']}_valid;")
        out += ["};", f"extern const struct table {name}_table;", ""]
    names = [table["name"] for table in tables if not has_strings(table)]
    out += ["/* Those of one table, which the reader knows. */", "union table_columns {"]
    out += [*(f"\tstruct {name}_columns {name};" for name in names), "};", ""]
    return "\n".join(out)


def strings(name: str, values: list[str]) -> str:
    body = ", ".join(f'"{value}"' for value in values)
    return f"static const char *const {name}[] = {{ {body}, NULL }};"


def label_data(name: str, found: list[Toml], scope: str = "") -> list[str]:
    """The labels as the buffers of an Arrow utf8 array; `scope` is "static " or nothing."""
    names = [value["name"] for value in found]
    offsets = [0]
    for label in names:
        offsets.append(offsets[-1] + len(label))
    return [
        f"static const int32_t {name}_offsets[] = {{ {', '.join(map(str, offsets))} }};",
        f'static const char {name}_text[] = "{"".join(names)}";',
        f"{scope}const struct labels {name}_labels = "
        f"{{ {len(names)}, {name}_offsets, {name}_text }};",
        "",
    ]


def source(tape: Toml, tables: list[Toml], header_name: str) -> str:
    out = [
        "/* Generated from the TOML files in schemas/. Do not edit. */",
        f'#include "{header_name}"',
        "#include <stddef.h>",
        "",
    ]
    for name, found in tape["enums"].items():
        out += label_data(name, found)
    for name, names in tape["bits"].items():
        body = ", ".join(f'"{bit}"' for bit in names)
        out += [f"const char *const {name}_bit_names[] = {{ {body} }};", ""]
    for table in tables:
        if has_strings(table):
            continue
        name = table["name"]
        rows, slot = [], 0
        for column in table["column"]:
            enum, found = values(table, column, tape, tables)
            if found and enum not in tape["enums"]:
                out += label_data(enum, found, scope="static ")
            fields = "NULL"
            if "fields" in column:
                fields = f"{name}_{column['name']}_fields"
                out.append(strings(fields, column["fields"]))
            nullable = bool(column.get("null"))
            rows.append(
                f'\t{{ "{column["name"]}", "{ARROW_FORMAT[column["type"]]}", '
                f"sizeof({C_TYPE[column['type']]}), {str(nullable).lower()}, "
                f"{slot}, {f'&{enum}_labels' if found else 'NULL'}, "
                f'"{column.get("bits", "")}", {fields} }},'
            )
            slot += 2 if nullable else 1
        kinds = table.get("kind", [])
        for kind in kinds:
            out.append(strings(f"{name}_{kind['name']}_tracepoints", kind["tracepoints"]))
        if kinds:
            out.append(f"static const struct kind {name}_kinds[] = {{")
            out += [
                f'\t{{ "{kind["name"]}", {name}_{kind["name"]}_tracepoints }},' for kind in kinds
            ]
            out.append("};")
        out += [
            f'_Static_assert({len(rows)} <= TABLE_COLUMNS_MOST, "columns of {name}");',
            f"static const struct column {name}_column[] = {{",
            *rows,
            "};",
        ]
        out += [
            f'const struct table {name}_table = {{ "{name}", {len(rows)}, {name}_column, '
            f"{len(kinds)}, {f'{name}_kinds' if kinds else 'NULL'} }};",
            "",
        ]
    return "\n".join(out)


def main(directory: Path, header_path: Path, source_path: Path, json_path: Path) -> None:
    tape = tomllib.loads((directory / "tape.toml").read_text())
    paths = [directory / f"{name}.toml" for name in tape["tables"]]
    tables = [tomllib.loads(path.read_text()) for path in paths]
    header_path.write_text(header(tape, tables))
    source_path.write_text(source(tape, tables, header_path.name))
    json_path.write_text(json.dumps({"tape": tape, "tables": tables}))
    read = " ".join(map(str, (directory / "tape.toml", *paths)))
    header_path.with_suffix(".d").write_text(f"{header_path}: {read}\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
