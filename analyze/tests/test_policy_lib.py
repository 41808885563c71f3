# SPDX-License-Identifier: Apache-2.0
"""A user's policy: the example of docs/policies.md, outside and inside the tree."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pagetape import _replay

ROOT = Path(__file__).parents[2]
TAPE = ROOT / "analyze/demo/pressure.tape"
SECTIONS = {
    "c": ("policies", "Your own policy"),
    "diff": ("CONTRIBUTING", "A policy in the tree"),
}
CC = shutil.which("cc") or "cc"

Run = Callable[..., Any]


def example(language: str) -> str:
    """The block of that language in the section about policies of its page."""
    page, title = SECTIONS[language]
    section = (ROOT / f"docs/{page}.md").read_text().partition(f"## {title}\n")[2]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found
    return found[1]


def compile_lib(folder: Path, source: str, name: str = "claim_share") -> Path:
    include = Path(_replay.__file__).parent / "include"
    (folder / f"{name}.c").write_text(source)
    strict = ["-Wall", "-Wextra", "-Werror"]
    command = [CC, "-shared", "-fPIC", *strict, "-I", include, f"{name}.c", "-o", f"{name}.so"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / f"{name}.so"


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_lib(tmp_path_factory.mktemp("lib"), example("c"))


def test_the_example_compiles_against_the_installed_headers_and_describes_itself(
    lib: Path, pagetape: Run
) -> None:
    assert pagetape("policies", "--include-dir").out.strip().endswith("/pagetape/include")
    text = pagetape("policies", "--policy-lib", lib).out
    assert "claim_share (tier A, none): Claim a pageblock sooner" in text
    assert re.search(r"percent\s+0\.\.100\s+25\s+Share of a pageblock", text)
    assert "claim_share" not in pagetape("policies").out


def test_it_runs_and_changes_what_it_decides(lib: Path, pagetape: Run) -> None:
    def fallbacks(*policies: str) -> tuple[dict[str, int], int]:
        answer = pagetape("replay", TAPE, "--policy-lib", lib, *policies, "--json").json
        changed = answer["policies_effect"][-1]["changed"]
        names = ("fallback_claim", "fallback_steal")
        return {name: answer["totals"][name]["value"] for name in names}, changed

    own, _ = fallbacks()
    assert fallbacks("--policy", "claim_share:percent=50") == (own, 0)
    sooner, changed = fallbacks("--policy", "claim_share")
    assert changed > 0
    assert sooner["fallback_claim"] > own["fallback_claim"]
    assert sooner["fallback_steal"] < own["fallback_steal"]


def test_what_is_no_policy_of_this_pagetape_is_one_clear_line(
    lib: Path, tmp_path: Path, pagetape: Run
) -> None:
    old = compile_lib(tmp_path, example("c").replace("POLICY_ABI,", "POLICY_ABI + 1,"), "old")
    none = compile_lib(tmp_path, "int nothing;\n", "none")
    taken = compile_lib(tmp_path, example("c").replace('"claim_share"', '"nofragment"'), "taken")
    missing = tmp_path / "missing.so"
    fifo = tmp_path / "fifo.so"
    os.mkfifo(fifo)
    for libs, message in (
        ([old], f"{old}: not compiled with .abi = POLICY_ABI and the headers of this"),
        ([none], f"{none}: exports no pagetape_policy"),
        ([taken], f"{taken}: there is a policy named 'nofragment' already"),
        ([missing], f"{missing}: No such file or directory"),
        ([fifo], f"{fifo}: not a regular file"),
        ([tmp_path], f"{tmp_path}: not a regular file"),
        ([ROOT / "README.md"], "README.md: "),
        ([lib, lib], f"{lib}: there is a policy named 'claim_share' already"),
    ):
        options = [word for path in libs for word in ("--policy-lib", path)]
        for command in (["policies"], ["replay", TAPE, "--policy", "claim_share"]):
            said = pagetape(*command, *options)
            assert said.status == 1
            assert said.err.startswith("pagetape: ") and said.err.count("\n") == 1
            assert message in said.err


def test_two_owners_of_one_choice_are_refused_across_libraries(
    lib: Path, tmp_path: Path, pagetape: Run
) -> None:
    other = compile_lib(tmp_path, example("c").replace('"claim_share"', '"other"'), "other")
    libs = ["--policy-lib", lib, "--policy-lib", other]
    said = pagetape("replay", TAPE, *libs, "--policy", "claim_share", "--policy", "other")
    assert said.status == 2
    assert "claim_share and other both decide 'claim'" in said.err


MAIN = """
#include "model/policy_stack.h"
#include "policies/policies.h"
#include <stdio.h>

int main(int argc, char **argv)
{
	struct error err = {""};
	struct policy_stack *stack;

	if (policy_stack_new(&stack, policies, &err) || policy_stack_add(stack, argv[argc - 1], &err))
		return puts(err.msg), 1;
	return puts(stack->owner.claim->ops->name) < 0;
}
"""


def test_in_the_tree_it_is_one_new_file_and_one_line(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for room in ("schemas", "collector", "queries", "analyze"):
        (tree / room).symlink_to(ROOT / room)
    shutil.copytree(ROOT / "replay", tree / "replay")
    for name in ("meson.build", "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)

    in_tree = example("c").replace("pagetape_policy", "claim_share_policy")
    in_tree = in_tree.replace("\t.abi = POLICY_ABI,\n", "")
    (tree / "replay/policies/claim_share.c").write_text(in_tree)
    diff = example("diff").splitlines()
    before = "\n".join(line[1:] for line in diff if not line.startswith("+"))
    after = "\n".join(line[1:] for line in diff)
    meson = tree / "replay/policies/meson.build"
    assert meson.read_text().count(before) == 1
    meson.write_text(meson.read_text().replace(before, after))

    tools = Path(sys.executable).parent
    build = tmp_path / "build"
    environment = {"PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin", "CFLAGS": "-O0"}

    def do(*command: str | Path) -> str:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    do(tools / "meson", "setup", "--buildtype=plain", build, tree)
    rooms = ["replay/libreplay_policies.a", "replay/libreplay_model.a"]
    rooms.append("schemas/libschemas.a")
    do(tools / "ninja", "-C", build, *rooms)
    (tmp_path / "main.c").write_text(MAIN)
    includes = ["-I", tree / "replay", "-I", tree / "schemas", "-I", build / "schemas"]
    libraries = [build / room for room in rooms]
    do(CC, "main.c", *includes, *libraries, "-ldl", "-lm", "-o", "own")
    assert do(tmp_path / "own", "claim_share:percent=10") == "claim_share\n"


def test_every_policy_of_the_tree_says_what_it_is() -> None:
    for policy in _replay.policies():
        assert policy["doc"].endswith(".")
        assert policy["kernel"]
        assert policy["tier"][0] in "AB"
        assert policy["choices"] or policy["notices"]
        for param in policy["params"]:
            assert param["doc"].endswith(".")
            assert param["values"] or param["min"] <= param["default"] <= param["max"]
