"""Programs of what JAX traced."""

import base64
import dataclasses
import gzip
import hashlib
import threading
import typing

import jax
from jax.extend import core

from .. import _locks, _native, _program, _server, _trace, _tuning, errors
from . import _jaxprs, _report
from ._options import Settings



@dataclasses.dataclass(frozen=True)
class Call:
    """What the custom call carries: the program's name, and its document as text, so that an executable needs nothing of
    the process that made it."""

    name: str
    package: str
    in_place: frozenset
    """Results that may lie where arguments do (argument, result)."""
    fallbacks: tuple
    """What only the reference evaluator computes: step and reason."""
    launches: int
    library_calls: int
    lock: str
    """What a lock has of the program."""

    def count(self) -> None:
        """Tells the report of a call that is lowered."""
        _report.count("calls")
        _report.count("launches", self.launches)
        _report.count("library_calls", self.library_calls)
        _report.count("reference_steps", len(self.fallbacks))

    def taken(self, pairs, in_place: bool) -> tuple:
        """Which results lie where arguments do, of those that want to; where nothing is computed aside (`in_place`) as the
        program has it."""
        return tuple(pair for pair in pairs if not in_place or pair in self.in_place)


class Asked(typing.NamedTuple):
    """What a program is asked of."""

    key: tuple
    name: str
    """Of the function, for people."""
    fragment: typing.Any
    """None where the process has the program already."""
    settings: Settings
    device: str
    in_place: bool


_lock = threading.Lock()
_made: dict = {}


def check_extents(jaxpr: core.ClosedJaxpr) -> None:
    """Errors: Unsupported where arguments or results have symbolic ones."""
    for aval in [*jaxpr.in_avals, *jaxpr.out_avals]:
        if not all(isinstance(extent, int) for extent in aval.shape):
            raise errors.Unsupported(f"its extents are symbolic: {aval.str_short()}")


def hlo_text(jaxpr: core.ClosedJaxpr) -> str:
    """What JAX lowers it to for a CPU, with the data of its constants. Errors: Unsupported (symbolic extents; what JAX
    itself cannot lower so)."""
    check_extents(jaxpr)
    arguments = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jaxpr.in_avals]
    # All arguments stay, used or not: the program's inputs are the call's operands.
    function = jax.jit(core.jaxpr_as_fun(_jaxprs.of_one_device(jaxpr)), keep_unused=True)
    try:
        lowered = function.trace(*arguments).lower(lowering_platforms=("cpu",))
        return lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    except Exception as error:  # JAX's own, of any class
        raise errors.Unsupported(f"JAX cannot lower it to HLO by itself: {error}") from error


def asked(jaxpr: core.ClosedJaxpr, settings: Settings, name: str, device: str, in_place: bool = False) -> Asked:
    """What the program of a function is asked of, for "emulated" or "cuda" (the first GPU's class). `in_place`: results are
    to lie where arguments do, as far as kernels can be made for that.

    Errors: Unsupported (an operator that nobody here computes; the message names it and its place).
    """
    with _trace.phase("capture", name=name):
        text = hlo_text(jaxpr)
    products = _products(settings.products, device)
    key = (
        hashlib.sha256(text.encode()).digest(),
        device,
        settings.server,
        settings.max_workspace_bytes,
        settings.constraints,
        settings.lock,
        in_place,
        products,
    )
    with _lock:
        known = key in _made
    if known:
        return Asked(key, name, None, settings, device, in_place)
    with _trace.phase("import", name=name):
        fragment = _native.read_model(text.encode(), f"{name}.hlo.txt")
    if len(fragment.parameters) != len(jaxpr.in_avals) or len(fragment.results) != len(jaxpr.out_avals):
        raise errors.Unsupported(
            f"its HLO has {len(fragment.parameters)} parameters and {len(fragment.results)} results, not"
            f" {len(jaxpr.in_avals)} and {len(jaxpr.out_avals)}"
        )
    _program.check_boundaries(fragment)
    return Asked(key, name, fragment, settings, device, in_place)


def _products(choice: str, device: str) -> str:
    """Who multiplies matrices inside of programs, as the server has it. A stream takes what it can, which without cuBLASLt
    are kernels of ours alone."""
    default = _program.default_products(device)
    if choice == "xla" or (device == "cuda" and choice != "ours"):
        return default
    return choice


def made(asked: Asked, deadline_ms: int, reference: bool) -> Call:
    """The program that was asked, made where the process has none yet. `reference`: steps without a kernel may be the
    reference evaluator's.

    Errors: Unsupported (what no stream takes), ConstraintError (more memory than the settings allow, or not what their
    lock names), PlanMissing (no kernel for a step), Unavailable, Timeout.
    """
    with _lock:
        call = _made.get(asked.key)
    if call is None:
        call = _make(asked, deadline_ms)
    if call.fallbacks and not reference:
        step, reason = call.fallbacks[0]
        raise errors.PlanMissing(f"there is no kernel for step '{step}': {reason}")
    return call


def _make(asked: Asked, deadline_ms: int) -> Call:
    settings, device = asked.settings, asked.device
    missed = _report.misses()
    _server.look_for(settings.server, deadline_ms)
    wish = _tuning.Wish(settings.tuned, settings.budget_seconds)
    document = _locks.make(
        settings.lock,
        asked.fragment,
        deadline_ms=deadline_ms,
        improve=wish.is_look_ups,
        server=settings.server,
        products=asked.key[-1],
        device=device,
        constraints=",".join(filter(None, (settings.constraints, "in_place" if asked.in_place else ""))),
    )
    _report.explain_misses(asked.name, missed)
    # What cannot be opened is found now, when XLA can still take its place.
    program = _program.Program(document, device)
    if settings.lock is not None:
        settings.lock.check(program)
    _program.tune_later(program, asked.fragment, wish, settings.server, settings.constraints)
    _program.check_workspace(program, settings.max_workspace_bytes)
    info = program.info
    if device == "cuda" and not info["can_launch"]:
        raise errors.Unsupported(info["why_no_launch"])
    packed = base64.b64encode(gzip.compress(document, 6, mtime=0)).decode()
    call = Call(
        hashlib.sha256(document).hexdigest(),
        packed,
        frozenset(map(tuple, info["in_place"])),
        tuple(map(tuple, info["fallbacks"])),
        info["launches"],
        info["steps"].get("library", 0),
        program.lock(),
    )
    with _lock:
        if asked.key in _made:
            return _made[asked.key]
        _made[asked.key] = call
    if not call.fallbacks or settings.products != "xla":
        _report.count("programs")
    return call


def locks() -> list[str]:
    """What locks have of the programs that the process made."""
    with _lock:
        return [call.lock for call in _made.values()]
