"""Programs of what JAX traced."""

import base64
import collections
import gzip
import hashlib
import threading

import jax
from jax.extend import core

from .. import _native, _program, _trace, errors
from . import _report
from ._options import Settings

Call = collections.namedtuple("Call", ["name", "package", "in_place"])
"""What the custom call carries: the program's name, and its document as text, so that an executable needs nothing of
the process that made it; and which results may lie where arguments do (argument, result)."""

_lock = threading.Lock()
_made: dict = {}


def hlo_text(jaxpr: core.ClosedJaxpr) -> str:
    """What JAX lowers it to for a CPU, with the data of its constants. Errors: Unsupported (symbolic extents; what JAX
    itself cannot lower so)."""
    for aval in [*jaxpr.in_avals, *jaxpr.out_avals]:
        if not all(isinstance(extent, int) for extent in aval.shape):
            raise errors.Unsupported(f"its extents are symbolic: {aval.str_short()}")
    arguments = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jaxpr.in_avals]
    # All arguments stay, used or not: the program's inputs are the call's operands.
    function = jax.jit(core.jaxpr_as_fun(jaxpr), keep_unused=True)
    try:
        lowered = function.trace(*arguments).lower(lowering_platforms=("cpu",))
        return lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    except Exception as error:  # JAX's own, of any class
        raise errors.Unsupported(f"JAX cannot lower it to HLO by itself: {error}") from error


def call_of(jaxpr: core.ClosedJaxpr, settings: Settings, name: str, device: str, in_place: bool = False) -> Call:
    """The program of a function, made where the process has none yet, for "emulated" or "cuda" (the first GPU's class).
    `in_place`: results are to lie where arguments do, as far as kernels can be made for that.

    Errors: Unsupported (an operator that nobody here computes, or that no stream takes; the message names it and its
    place), ConstraintError (more memory than the settings allow), Unavailable, Timeout.
    """
    with _trace.phase("capture", name=name):
        text = hlo_text(jaxpr)
    key = (hashlib.sha256(text.encode()).digest(), device, settings.server, settings.max_workspace_bytes, in_place)
    with _lock:
        if key in _made:
            return _made[key]
    with _trace.phase("import", name=name):
        fragment = _native.read_model(text.encode(), f"{name}.hlo.txt")
    if len(fragment.parameters) != len(jaxpr.in_avals) or len(fragment.results) != len(jaxpr.out_avals):
        raise errors.Unsupported(
            f"its HLO has {len(fragment.parameters)} parameters and {len(fragment.results)} results, not"
            f" {len(jaxpr.in_avals)} and {len(jaxpr.out_avals)}"
        )
    missed = _report.misses()
    document = _program.make(
        fragment,
        deadline_ms=settings.deadline_ms,
        improve=settings.improve,
        server=settings.server,
        products=_program.default_products(device),
        device=device,
        constraints="in_place" if in_place else "",
    )
    _report.explain_misses(name, missed)
    # What cannot be opened is found now, when XLA can still take its place.
    program = _program.Program(document, device)
    _program.check_workspace(program, settings.max_workspace_bytes)
    info = program.info
    if device == "cuda" and not info["can_launch"]:
        raise errors.Unsupported(info["why_no_launch"])
    packed = base64.b64encode(gzip.compress(document, 6, mtime=0)).decode()
    call = Call(hashlib.sha256(document).hexdigest(), packed, frozenset(map(tuple, info["in_place"])))
    with _lock:
        if key in _made:
            return _made[key]
        _made[key] = call
    _report.count("programs")
    _report.count("launches", info["launches"])
    _report.count("library_calls", info["steps"].get("library", 0))
    _report.count("reference_steps", len(info["fallbacks"]))
    return call
