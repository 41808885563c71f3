# SPDX-License-Identifier: Apache-2.0
"""Turn a file into a C array: embed.py FILE OUT.c NAME. Run by meson."""

import sys
from pathlib import Path


def main(source: Path, target: Path, name: str) -> None:
    data = source.read_bytes()
    rows = [data[i : i + 16] for i in range(0, len(data), 16)]
    body = "\n".join("\t" + " ".join(f"{byte:#04x}," for byte in row) for row in rows)
    target.write_text(
        f"/* Generated from {source.name}. Do not edit. */\n"
        "#include <stddef.h>\n\n"
        f"extern const unsigned char {name}[];\n"
        f"extern const size_t {name}_size;\n\n"
        f"_Alignas(8) const unsigned char {name}[] = {{\n{body}\n}};\n"
        f"const size_t {name}_size = {len(data)};\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
