# SPDX-License-Identifier: Apache-2.0
"""Turn schemas/kernels.toml into the C view of the kernel rows, and into JSON.

Usage: generate_kernels.py KERNELS_TOML OUT.h OUT.c OUT.json

Run by meson; needs nothing but the standard library. The header gets one enum for each feature
with values, and `struct kernel` with one byte for each feature. The source gets the rows, the
features in words, and the first releases of each row. replay/model/kernel.h declares them.
Python reads the JSON, which is the whole file: TOML takes 20 ms.
"""

import json
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Toml = dict[str, Any]

_HEADER = "/* Generated from schemas/kernels.toml. Do not edit. */"
_BYTE = 255  # the most that a feature holds
_FALLBACK = {None: "FALLBACK_APART", "request": "FALLBACK_OF_REQUEST", "free": "FALLBACK_OF_FREE"}
_YES_NO = [{"name": "false", "doc": "no"}, {"name": "true", "doc": "yes"}]


def values(feature: Toml) -> list[Toml]:
    """The values of a feature, least first; none for a number."""
    if feature.get("type") == "number":
        return []
    found: list[Toml] = feature.get("values", _YES_NO)
    return found


def constant(row: Toml, feature: Toml, value: object) -> str:
    """The C constant of a row's value; ValueError if the feature does not have it."""
    found = values(feature)
    if found is _YES_NO:
        good = isinstance(value, bool)
    elif found:
        good = value in [one["name"] for one in found]
    else:
        good = type(value) is int and 0 <= value <= _BYTE
    if not good:
        raise ValueError(f"row {row['name']}: {feature['name']} cannot be {value!r}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def rules(kernels: Toml) -> dict[str, dict[str, str]]:
    """By row, the C constant of each feature: its own, or that of the row before."""
    known = {feature["name"]: feature for feature in kernels["feature"]}
    first = {name: (values(f) or [{"name": "0"}])[0]["name"] for name, f in known.items()}
    found: dict[str, dict[str, str]] = {}
    last = None
    for row in kernels["row"]:
        name = row["name"]
        if name in found:
            raise ValueError(f"row {name} is there twice")
        before = row.get("before", last)
        if before is not None and before not in found:
            raise ValueError(f"row {name}: there is no row {before} before it")
        own = row.get("features", {})
        if unknown := own.keys() - known.keys():
            raise ValueError(f"row {name}: there is no feature {', '.join(sorted(unknown))}")
        changed = {f: constant(row, known[f], value) for f, value in own.items()}
        found[name] = (found[before] if before is not None else first) | changed
        last = name
    return found


def first_releases(rows: list[Toml]) -> list[tuple[tuple[int, ...], str]]:
    """Each first release with its row, oldest first; ValueError if two rows have one of them."""
    found: dict[tuple[int, ...], str] = {}
    for row in rows:
        for text in row["since"]:
            numbers = tuple(int(number) for number in text.split("."))
            release = (*numbers, 0, 0)[:3]
            if release in found:
                raise ValueError(
                    f"{text} is the first release of {found[release]} and {row['name']}"
                )
            found[release] = row["name"]
    return sorted(found.items())


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def array(name: str, elements: Iterable[str]) -> str:
    return f"static const char *const {name}[] = {{ {', '.join([*elements, 'NULL'])} }};"


def header(kernels: Toml) -> str:
    rows = [row["name"] for row in kernels["row"]]
    out = [_HEADER, "#pragma once", "#include <stdbool.h>", "#include <stdint.h>", ""]
    for feature in kernels["feature"]:
        if found := feature.get("values"):
            out.append(f"enum kernel_{feature['name']} {{")
            out += [f"\t{value['name']}, /* {value['doc']} */" for value in found]
            out += ["};", ""]
    out += ["struct kernel {", "\tconst char *name;", "\tconst char *doc;"]
    out += [f"\tuint8_t {f['name']}; /* {f['doc']} */" for f in kernels["feature"]]
    out += ["};", ""]
    default = rows.index(kernels["default_fallback"])
    out += [f"enum {{ NR_KERNELS = {len(rows)}, DEFAULT_FALLBACK_KERNEL = {default} }};", ""]
    return "\n".join(out)


def source(kernels: Toml) -> str:
    rows, features = kernels["row"], kernels["feature"]
    out = [_HEADER, '#include "model/kernel.h"', ""]
    out.append("const struct kernel kernels[] = {")
    for row, features_of_row in zip(rows, rules(kernels).values(), strict=True):
        out.append(f"\t{{\n\t\t.name = {quoted(row['name'])},\n\t\t.doc = {quoted(row['doc'])},")
        out += [f"\t\t.{name} = {value}," for name, value in features_of_row.items()]
        out.append("\t},")
    out += ["\t{0},", "};", ""]
    names = ", ".join(quoted(row["name"]) for row in rows)
    out += [f"const char *const kernel_names[] = {{ {names}, NULL }};", ""]
    for feature in features:
        found = values(feature)
        if found is not _YES_NO:
            out.append(array(f"{feature['name']}_words", (quoted(v["doc"]) for v in found)))
            out.append(array(f"{feature['name']}_constants", (quoted(v["name"]) for v in found)))
    out.append(array("yes_no_words", (quoted(v["doc"]) for v in _YES_NO)))
    out.append(array("yes_no_constants", (quoted(v["name"]) for v in _YES_NO)))
    out += ["", "const struct feature features[] = {"]
    for feature in features:
        name = feature["name"]
        listed = "yes_no" if values(feature) is _YES_NO else name
        reclaim = "true" if feature.get("reclaim") else "false"
        fallback = _FALLBACK[feature.get("fallback")]
        out.append(
            f"\t{{ {quoted(name)}, {quoted(feature['doc'])}, offsetof(struct kernel, {name}), "
            f"{reclaim}, {fallback}, {listed}_words, {listed}_constants }},"
        )
    out += ["\t{0},", "};", "", "const struct kernel_start kernel_starts[] = {"]
    order = [row["name"] for row in rows]
    for release, name in first_releases(rows):
        numbers = ", ".join(map(str, release))
        out.append(f"\t{{ {{ {numbers} }}, &kernels[{order.index(name)}] }}, /* {name} */")
    out += ["\t{{0}, NULL},", "};", ""]
    return "\n".join(out)


def main(kernels_path: Path, header_path: Path, source_path: Path, json_path: Path) -> None:
    kernels = tomllib.loads(kernels_path.read_text())
    header_path.write_text(header(kernels))
    source_path.write_text(source(kernels))
    json_path.write_text(json.dumps(kernels))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
