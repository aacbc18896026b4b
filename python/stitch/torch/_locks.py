"""Locks: which plan every piece of a program has, as text for version control.

    stitch-lock 1
    piece 1b2e…  plan 77a0…  code 9c0d… 41ff…

A piece is named by its operators, extents, types, constraints and kind of device (`_artifacts.key_of`). Sorted, without
times and paths: equal plans give equal bytes.
"""

import dataclasses
import functools
import hashlib
import json
import os
import re

from .. import _locks, errors
from . import _report

_FIRST = "stitch-lock 1"
_LINE = re.compile(r"piece ([0-9a-f]{64})  plan ([0-9a-f]{32})  code((?: [0-9a-f]{64})*)")
_PLAN = re.compile(r"^fragment [0-9a-f]+  (plan [0-9a-f]{32}  code(?: [0-9a-f]{64})*)$", re.MULTILINE)


class Differs(errors.ConstraintError):
    """A piece has no plan that its lock names."""


@dataclasses.dataclass(frozen=True)
class Locked:
    """A line of a lock."""

    line: int
    plan: str
    text: str  # plan and code, as written


@dataclasses.dataclass(frozen=True)
class Lock:
    path: str
    text: str

    def __post_init__(self):
        _entries(self.path, self.text)

    def locked(self, key: str, document: str) -> Locked:
        """What the lock names for a piece. Errors: Differs."""
        found = _entries(self.path, self.text).get(key)
        if found is None:
            raise Differs(f"{self.path} does not have {_named(key, document)}")
        return found

    def differs(self, key: str, document: str, found: str) -> Differs:
        """The error where a piece's plan is not the one that is locked, but what was found."""
        locked = self.locked(key, document)
        where = f"{self.path}, line {locked.line}"
        return Differs(f"{where}: expected '{locked.text}', found {found} for {_named(key, document)}")


def read(path: str) -> Lock:
    """Errors: InvalidArgument (it cannot be opened), ParseError and CompatibilityError, with file and line."""
    return Lock(path, _locks.read_text(path))


@functools.lru_cache(maxsize=16)
def _entries(path: str, text: str) -> dict:
    lines = text.splitlines()
    if not lines or not lines[0].startswith("stitch-lock "):
        raise errors.ParseError(f"lock {path}, line 1: no lock of Stitch's")
    if lines[0] != _FIRST:
        raise errors.CompatibilityError(f"lock {path}, line 1: '{lines[0]}', '{_FIRST}' is read here")
    found: dict = {}
    for number, line in enumerate(lines[1:], 2):
        read = _LINE.fullmatch(line)
        if read is None:
            wanted = "piece KEY  plan ID  code HASH…"
            raise errors.ParseError(f"lock {path}, line {number}: expected '{wanted}', found '{line[:80]}'")
        key, plan, code = read.groups()
        if key in found:
            raise errors.ParseError(f"lock {path}, line {number}: piece {key} stands in line {found[key].line}")
        found[key] = Locked(number, plan, f"plan {plan}  code{code}")
    return found


def text_of(program) -> str:
    """Id and code of a plan that is a program of one step; of a program of several, a hash of its plans and all code."""
    plans = _PLAN.findall(program.lock)
    if len(plans) == 1:
        return plans[0]
    code = sorted({hash for plan in plans for hash in plan.split("  code", 1)[1].split()})
    return "  code ".join([f"plan {hashlib.sha256(program.lock.encode()).hexdigest()[:32]}", " ".join(code)])


def _named(key: str, document: str) -> str:
    """A piece, for people too, who know operators and not keys."""
    names = [node["op"] for node in json.loads(document)["nodes"]]
    return f"piece {key} ({_report.some_of(names)})"


def write(path, plans: dict) -> None:
    """`plans`: of keys, what `text_of` has of the plan."""
    text = "".join(f"{line}\n" for line in [_FIRST, *(f"piece {key}  {of}" for key, of in sorted(plans.items()))])
    new = f"{os.fspath(path)}.{os.getpid()}.new"
    with open(new, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    os.replace(new, path)

