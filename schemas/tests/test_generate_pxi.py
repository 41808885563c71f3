# SPDX-License-Identifier: Apache-2.0
"""What a Cython binding gets of C headers."""

import subprocess
import sys
from pathlib import Path

import pytest

GENERATE = Path(__file__).parents[1] / "generate_pxi.py"

HEADER = """\
/* A comment with a struct nothing { int x; }; in it. */
#pragma once
#include <stdint.h>
#include "base.h"
#define FOR_EACH(X) \\
\tX(one)
enum { MOST = 1 << 4, LEAST };
enum mode { MODE_A, MODE_B = 3 };
struct opaque;
struct point {
\tint16_t x, y; /* two of one type */
\tuint8_t flag : 4;
\tbool there;
\tconst char *names[MOST];
\tenum mode mode;
\tstruct opaque *next;
\tint (*call)(void *self, frame_nr nr);
\tstruct { int inner; } nested;
\tstruct elsewhere value;
\tint from;
};
struct point_sum { uint64_t nr; };
struct point_rows { size_t nr; const uint64_t *ts; uint8_t *kind; };
extern const struct point points[];
__attribute__((format(printf, 2, 3))) int fail(struct opaque *o, const char *fmt, ...);
static inline bool is_there(const struct point *p)
{
\tif (p->there) {
\t\treturn true;
\t}
\treturn false;
}
const struct point_sum *point_sum(const struct point *p, uint32_t counts[MOST]);
void other(unknown_t *u);
"""


@pytest.fixture
def generated(tmp_path: Path) -> str:
    (tmp_path / "room").mkdir()
    (tmp_path / "room/point.h").write_text(HEADER)
    (tmp_path / "room/base.h").write_text("typedef uint32_t frame_nr;\n")
    out = tmp_path / "out.pxi"
    words = ["room/point.h", "points=all_points"]
    subprocess.run([sys.executable, GENERATE, out, tmp_path, *words], check=True)
    read = f"{out}: {tmp_path / 'room/base.h'} {tmp_path / 'room/point.h'}\n"
    assert (tmp_path / "out.d").read_text() == read
    return out.read_text()


@pytest.mark.parametrize(
    "line",
    [
        "    enum:\n        MOST\n        LEAST\n",
        "    enum mode:\n        MODE_A\n        MODE_B\n",
        'cdef extern from "room/base.h" nogil:\n    ctypedef uint32_t frame_nr\n',
        "    struct opaque: pass\n",
        "        int16_t x\n        int16_t y\n        uint8_t flag\n        bint there\n",
        "        const char * names[1]\n        mode mode\n        opaque * next\n",
        "        int (*call)(void *, frame_nr) noexcept\n",
        '    const point all_points "points"[1]\n',
        "    int fail(opaque *, const char *, ...)\n",
        "    bint is_there(const point *)\n",
        '    struct point_sum_c "point_sum":\n        uint64_t nr\n',
        "    const point_sum_c * point_sum(const point *, uint32_t*)\n",
    ],
)
def test_declarations_are_in_the_words_of_cython(generated: str, line: str) -> None:
    assert line in generated


def test_only_structs_of_pointers_have_their_names(generated: str) -> None:
    assert generated.endswith("POINTERS = {\n    'point_rows': ('ts', 'kind'),\n}\n")


@pytest.mark.parametrize("name", ["nothing", "FOR_EACH", "nested", "inner", "from", "unknown_t"])
def test_what_cython_cannot_have_is_left_out(generated: str, name: str) -> None:
    assert f" {name}" not in generated.replace("cdef extern from", "").replace(
        "# Generated from", ""
    )
