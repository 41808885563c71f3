# SPDX-License-Identifier: Apache-2.0
"""Turn C headers into the declarations that a Cython binding includes.

Usage: generate_pxi.py OUT.pxi DIR[:DIR...] HEADER... [NAME=ALIAS...]

Run by meson, for which OUT.d names what it reads; needs nothing but the standard library. A header
is named as the binding includes it, below one of the directories; those that it includes come with
it. Declarations have the names of C or their aliases; a struct with the name of a function is
NAME_c. The headers have the form of this tree. Macros, members without a name, and what has a type
of a library are left out. The dict POINTERS has the pointers of each struct that has nothing else,
but numbers before them.
"""

import os
import re
import sys
from collections.abc import Callable
from keyword import iskeyword
from pathlib import Path

_NOT_C = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
_ATTRIBUTE = re.compile(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)|\b(?:static|inline|extern)\b")
_COMMA = re.compile(r", *(?![^(]*\))")  # outside of parentheses
_TAG = re.compile(r"\b(struct|enum) (\w+)")
_INCLUDE = re.compile(r'^#include "(.+)"', re.M)
_STRUCT = re.compile(r"\bstruct (\w+)")
_FUNCTION = re.compile(r"(.+?[ *])(\w+)\((.*)\)")
_POINTER = re.compile(r"(.+)\(\*(\w+)\)(?:\((.*)\)|\[.*\])")  # to a function or an array
_VARIABLE = re.compile(r"((?:\w+[ *]+)+)(\w+)((?:\[[^\]]*\])*)(?: : \d+)?")
_INTEGERS = {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_BASIC = {"const", "void", "char", "short", "int", "long", "unsigned", "double", "bint"}

Piece = tuple[str, str]  # a declaration, and the text in its braces


def pieces(header: str) -> list[Piece]:
    """The declarations of a header."""
    found, depth, head, body = [], 0, "", ""
    for c in _NOT_C.sub("", header):
        depth += (c == "{") - (c == "}")
        if depth or c == "}":
            body += c
        elif c != ";":
            head += c
        if not depth and (c == ";" or (c == "}" and head.rstrip().endswith(")"))):
            words = _ATTRIBUTE.sub("", head).split()
            found.append((" ".join(words), " ".join(body[1:-1].split())))
            head = body = ""
    return found


def structs(found: list[Piece]) -> dict[str, bool]:
    """The tags of structs, and whether their members are declared too."""
    tags = [tag for piece in found for text in piece for tag in _STRUCT.findall(text)]
    whole = {head for head, body in found if body}
    return {tag: f"struct {tag}" in whole for tag in tags}


class Words:
    """The words of Cython for those of C; None for what has an unknown type."""

    def __init__(self, found: list[Piece], aliases: dict[str, str]) -> None:
        functions = {m[2] for head, _ in found if (m := _FUNCTION.fullmatch(head))}
        tags = {m[2] for head, _ in found if (m := _TAG.fullmatch(head))} | structs(found).keys()
        self._aliases = aliases
        self._tags = {t: f"{t}_c" if t in functions else aliases.get(t, t) for t in tags}
        self._types = _BASIC | _INTEGERS | {"size_t", "ssize_t"} | set(self._tags.values())

    def tag(self, name: str) -> str:
        return name if self._tags[name] == name else f'{self._tags[name]} "{name}"'

    def _name(self, name: str) -> str:
        return f'{self._aliases[name]} "{name}"' if name in self._aliases else name

    def _type(self, text: str) -> str | None:
        text = _TAG.sub(lambda m: self._tags.get(m[2], m[0]), text.strip())
        text = re.sub(r"\bbool\b", "bint", text)
        return text if set(re.findall(r"\w+", text)) <= self._types else None

    def _parameters(self, text: str) -> str | None:
        """Types without names; that of an array is a pointer."""
        found: list[str | None] = []
        for each in _COMMA.split(text) if text != "void" else []:
            m = _VARIABLE.fullmatch(each)
            of = "..." if each == "..." else self._type(each) or (self._type(m[1]) if m else None)
            found.append(f"{of}*" if of and m and m[3] else of)
        return None if None in found else ", ".join(filter(None, found))

    def _variable(self, text: str, name: Callable[[str], str] = str) -> str | None:
        if (m := _POINTER.fullmatch(text)) and m[3] is None:
            return self._variable(f"{m[1]} *{m[2]}")
        if m:
            of, given = self._type(m[1]), self._parameters(m[3])
            return None if of is None or given is None else f"{of} (*{m[2]})({given}) noexcept"
        m = _VARIABLE.fullmatch(text)
        if not m or iskeyword(m[2]) or not (of := self._type(m[1])):
            return None
        sizes = re.sub(r"\[[^\]]*\]", "[1]", m[3])  # Cython asks for a size, and C knows it
        return f"{of} {name(m[2])}{sizes}"

    def _members(self, body: str) -> list[str]:
        found: list[str | None] = []
        for line in body.split(";"):
            first, *more = _COMMA.split(line.strip())
            of = first.rpartition(" ")[0]
            found += [self._variable(each) for each in (first, *(f"{of} {name}" for name in more))]
        return [member for member in found if member] or ["pass"]

    def lines(self, head: str, body: str) -> list[str]:
        """One declaration."""
        if (m := _TAG.fullmatch(head)) and m[1] == "struct":
            return [f"struct {self.tag(m[2])}:", *self._members(body)] if body else []
        if m or head == "enum":
            constants = [each.partition("=")[0].strip() for each in _COMMA.split(body)]
            return [f"enum {self.tag(m[2])}:" if m else "enum:", *filter(None, constants)]
        if head.startswith("typedef "):
            line = self._variable(head.removeprefix("typedef "))
            self._types.add(head.rpartition(" ")[2])
            return [f"ctypedef {line}"] if line else []
        if m := _FUNCTION.fullmatch(head):
            of, given = self._type(m[1]), self._parameters(m[3])
            return [] if of is None or given is None else [f"{of} {self._name(m[2])}({given})"]
        line = self._variable(head, self._name)
        return [line] if line else []


def pointers(body: str) -> list[str]:
    """The names of a struct's members after the first pointer, if all of them are pointers."""
    members = [member.strip() for member in body.split(";")[:-1]]
    while members and "*" not in members[0]:
        members = members[1:]
    names = [m[1] for member in members if (m := re.fullmatch(r"(?:const )?\w+ \*(\w+)", member))]
    return names if len(names) == len(members) else []


def with_included(directories: list[Path], names: list[str]) -> dict[str, Path]:
    """The headers, each after those that it includes, by the name that a binding includes."""
    found: dict[str, Path] = {}
    seen: set[Path] = set()

    def add(name: str, beside: list[Path]) -> None:
        path = next((d / name for d in (*beside, *directories) if (d / name).exists()), None)
        if path is None or path in seen:  # of a library, or there already
            return
        seen.add(path)
        for included in _INCLUDE.findall(path.read_text()):
            add(included, [path.parent])
        root = next(d for d in directories if path.is_relative_to(d))
        found[str(path.relative_to(root))] = path

    for name in names:
        add(name, [])
    return found


def main(out: Path, directories: list[Path], given: list[str]) -> None:
    aliases = dict(word.split("=") for word in given if "=" in word)
    paths = with_included(directories, [word for word in given if word.endswith(".h")])
    headers = {name: pieces(path.read_text()) for name, path in paths.items()}
    found = [piece for those in headers.values() for piece in those]
    words = Words(found, aliases)
    text = ["# Generated from C headers. Do not edit.", "from libc.stddef cimport size_t"]
    text += [f"from libc.stdint cimport {', '.join(sorted(_INTEGERS))}", "cdef extern from *:"]
    for tag, whole in structs(found).items():
        text += [f"    struct {words.tag(tag)}" + ("" if whole else ": pass")]
    for header, those in headers.items():
        text.append(f'cdef extern from "{header}" nogil:')
        for head, body in dict.fromkeys(those):
            first, *members = words.lines(head, body) or ["pass"]
            text += [f"    {first}", *(f"        {member}" for member in members)]
    text.append("POINTERS = {")
    for head, body in dict.fromkeys(found):
        if head.startswith("struct ") and (names := pointers(body)):
            text.append(f"    {head.removeprefix('struct ')!r}: {tuple(names)!r},")
    text.append("}")
    out.write_text("\n".join(text) + "\n")
    out.with_suffix(".d").write_text(f"{out}: {' '.join(map(str, paths.values()))}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), list(map(Path, sys.argv[2].split(os.pathsep))), sys.argv[3:])
