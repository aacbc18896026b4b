"""What was compiled, in one file: the plans and programs of all pieces, with their code.

    stitch-torch 1 SHA256          of all that follows
    {"stitch": …, "bytes": …, "plans": [{"key": …, "target": …, "bytes": …}, …]}
    the plans' contents (`_artifacts`), one behind the other

Nothing of it is pickled, and weights are not in it. A plan is found by its key: operators, extents, types, constraints and
kind of device, so that a file for another model, or another GPU, costs nothing but its memory.
"""

import hashlib
import json
import os
import pathlib
import re

import torch

from .. import __version__, _plan, _trace, errors
from . import _artifacts, _report, _runtime

_FIRST = re.compile(rb"stitch-torch (\d+) ([0-9a-f]{64})\n")
_FORMAT = 1


def save(path: str | os.PathLike[str], *, timeout_seconds: float | None = None) -> int:
    """Writes the plans and programs of all that was compiled in this process to a file, with their code; how many.

    Waits for plans that are on their way. `load` in another process has what is compiled there find them, where neither
    a server nor a compiler (NVRTC) is. Pieces without a plan are not in it, which is said. Errors: Timeout, OSError.
    """
    plans = _runtime.best_plans(path, timeout_seconds)
    listed = [
        {"key": key, "target": target, "bytes": len(plan.content)} for key, (plan, target) in sorted(plans.items())
    ]
    parts = [plans[one["key"]][0].content for one in listed]
    head = {"stitch": __version__, "bytes": sum(map(len, parts)), "plans": listed}
    rest = json.dumps(head).encode() + b"\n" + b"".join(parts)
    _plan._write(path, f"stitch-torch {_FORMAT} {hashlib.sha256(rest).hexdigest()}\n".encode() + rest)
    return len(plans)


def load(path: str | os.PathLike[str], *, strict: bool = False) -> int:
    """Has what is compiled from now on find the plans of a file that `save` wrote; how many there are for devices here.

    A file that cannot be used (truncated or changed, no file of `save`, of another version, for other GPUs, not there)
    is left out, and it is said why, also in `report()["refused"]`: a server is asked, or PyTorch runs. With `strict` that
    is an error instead: InvalidArgument, ParseError, CompatibilityError or CorruptError.
    """
    try:
        with _trace.phase("load file", name=pathlib.Path(path).name):
            plans = _fitting(path, *_read(path))
    except errors.Error as error:
        if strict:
            raise
        _report.refused(str(error))
        return 0
    _artifacts.take(plans)
    return len(plans)


def _read(path) -> tuple[list, bytes]:
    """What the head lists, and the contents. Errors: see `load`."""
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise errors.InvalidArgument(f"{path}: {error.strerror}") from error
    first = _FIRST.match(data)
    if first is None:
        raise errors.ParseError(f"{path}: no file of stitch.torch.save")
    if int(first[1]) != _FORMAT:
        raise errors.CompatibilityError(f"{path}: written in format {int(first[1])}, {_FORMAT} is read here: save it again")
    rest = data[first.end() :]
    if hashlib.sha256(rest).digest() != bytes.fromhex(first[2].decode()):
        raise errors.CorruptError(f"{path}: {_damage(rest)}")
    head, _, contents = rest.partition(b"\n")
    try:
        head = json.loads(head)
        version, listed = str(head["stitch"]), [(str(of["key"]), str(of["target"]), int(of["bytes"])) for of in head["plans"]]
    except (ValueError, TypeError, KeyError) as error:
        raise errors.ParseError(f"{path}: its head does not list plans") from error
    if version != __version__:
        raise errors.CompatibilityError(f"{path}: written by Stitch {version}, this is {__version__}: save it again")
    sizes = [size for *_, size in listed]
    if min(sizes, default=0) < 0 or sum(sizes) != len(contents):
        raise errors.ParseError(f"{path}: its head lists {sum(sizes)} bytes of plans, and there are {len(contents)}")
    return listed, contents


def _damage(rest: bytes) -> str:
    """In what a file whose hash is another one differs from what was written, as far as that can be told."""
    head, _, contents = rest.partition(b"\n")
    try:
        wanted = int(json.loads(head)["bytes"])
    except (ValueError, TypeError, KeyError):
        return "truncated or changed: its hash is another"
    if len(contents) < wanted:
        return f"truncated: {len(contents)} of {wanted} bytes of plans are there"
    return "changed: its hash is another"


def _fitting(path, listed: list, contents: bytes) -> dict:
    """Contents by key, of plans for devices that are here. Errors: CompatibilityError where none is, of some."""
    here = targets()
    found, place = {}, 0
    for key, target, size in listed:
        if target in here:
            found[key] = contents[place : place + size]
        place += size
    if listed and not found:
        others = " and ".join(sorted({target for _, target, _ in listed}))
        raise errors.CompatibilityError(f"{path}: its plans are for {others}; here are {' and '.join(sorted(here))}")
    return found


def targets() -> set:
    """The kinds of devices that there are here, as keys have them."""
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    return {"emulated", *(_runtime.cuda.target(torch.device("cuda", index)) for index in gpus)}
