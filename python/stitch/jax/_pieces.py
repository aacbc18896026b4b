"""A function as XLA's with calls of ours: what stays XLA's and why, and the programs of all pieces."""

import concurrent.futures
import threading
import time

from jax.extend import core

from .. import _native, errors
from . import _jaxprs, _partition, _programs, _report
from ._options import Settings

call_p = core.Primitive("stitch_piece")
"""A piece: `call`, a `_programs.Call`; `aliases`, the results that take arguments' memory (argument, result); `avals` of
its results."""

LIBRARY = (
    "conv_general_dilated", "dot_general", "dot_product_attention_bwd_wrapper", "dot_product_attention_fwd_wrapper",
    "dot_product_attention_fp8_bwd_wrapper", "dot_product_attention_fp8_fwd_wrapper", "ragged_dot", "ragged_dot_general",
    "scaled_matmul_wrapper",
)  # fmt: skip
"""What a library does best. Neither ours nor a fall-back."""
_WORDS = (
    "all_gather", "all_gather_invariant", "all_to_all", "axis_index", "device_put", "mesh_cast", "optimization_barrier",
    "pbroadcast", "pmax", "pmin", "ppermute", "psum", "psum2", "psum_invariant", "psum_scatter", "ragged_all_to_all",
    "reduce_scatter", "reshard", "sharding_constraint",
)  # fmt: skip
"""What says something to XLA, or to other devices, and is no work of a kernel's."""
_OF_THE_HOST = ("cond", "while")
"""What waits for a value, as no stream does."""

_AT_ONCE = 4

_lock = threading.Lock()
# By key, with the jaxpr, which keeps alive what the key names.
_reasons: dict = {}


def is_word(eqn) -> bool:
    """Whether it is XLA's as a matter of course, and no operator."""
    if eqn.primitive.name == "device_put":  # without a place it is a copy
        return any(place is not None for place in eqn.params.get("devices", ()))
    return eqn.primitive.name in _WORDS or getattr(eqn.ctx, "compute_type", None) is not None


def _moves_memory(eqn) -> bool:
    """Whether it is an operator that reads or writes more than a number."""
    if is_word(eqn) or _partition.is_view(eqn):
        return False
    avals = [*(atom.aval for atom in eqn.invars), *(var.aval for var in eqn.outvars)]
    return max(map(_jaxprs.elements, avals), default=0) > 1


def _operators(eqn) -> list:
    """The equations that count as operators, products among them; those inside of loops and branches in their place."""
    inner = _jaxprs.nested(eqn)
    if eqn.primitive.name in _jaxprs.CONTROL or (inner and _jaxprs.can_enter(eqn)):
        return [one for jaxpr in inner for own in _jaxprs.flat(jaxpr, custom=True).eqns for one in _operators(own)]
    return [eqn] if eqn.primitive.name in LIBRARY or _moves_memory(eqn) else []


def _has_library(eqn) -> bool:
    return any(one.primitive.name in LIBRARY for inner in _jaxprs.nested(eqn) for one in _jaxprs.equations(inner))


def _alone(eqn) -> core.ClosedJaxpr:
    """An equation as a function, of keys of random numbers as well."""
    bits = _jaxprs.Bits()
    reads = list(dict.fromkeys(_jaxprs.variables(eqn)))
    copy = core.new_jaxpr_eqn(eqn.invars, eqn.outvars, eqn.primitive, eqn.params, eqn.effects, ctx=eqn.ctx)
    eqns = [*bits.lift(reads), copy, *bits.lower(eqn.outvars)]
    return core.ClosedJaxpr(_jaxprs.jaxpr_of([*map(bits.of, reads)], [*map(bits.of, eqn.outvars)], eqns), ())


def _why_not(eqn) -> str | None:
    """Why no kernel computes an equation; None: one does, as far as the importer can tell."""
    alone = _alone(eqn)
    key = _jaxprs.key_of(alone.jaxpr)
    with _lock:
        if key in _reasons:
            return _reasons[key][1]
    reason = None
    try:
        fragment = _native.read_model(_programs.hlo_text(alone).encode(), f"{eqn.primitive.name}.hlo.txt")
        if fragment.boundaries:
            reason = "; ".join(dict.fromkeys(why for _, _, why in fragment.boundaries))
    except errors.Error as error:
        reason = str(error)
    with _lock:
        _reasons[key] = alone, reason
    return reason


class _Level:
    """A jaxpr without calls, its pieces, and what was made of the jaxprs inside of equations that stay XLA's."""

    def __init__(self, function: core.ClosedJaxpr, graph: _partition.Graph, pieces: list):
        self.function, self.graph, self.pieces = function, graph, pieces
        self.inner = {}  # by equation, in the order of `_jaxprs.entered`

    def all(self):
        yield self
        for levels in self.inner.values():
            for level in levels:
                yield from level.all()


class _Piece:
    """A piece's place, and how its program is asked for."""

    def __init__(self, level: _Level, piece: _partition.Piece, aliases: tuple, in_place: bool):
        self.level, self.piece, self.aliases, self.in_place = level, piece, aliases, in_place
        self.key = _jaxprs.key_of(piece.jaxpr.jaxpr), in_place

    def equations(self) -> list:
        return [self.level.graph.eqns[i] for i in (*self.piece.group.numbers, *self.piece.group.again)]


class _Splitter:
    """Takes pieces out of a function, in rounds: what turns out to have no kernel is XLA's in the next."""

    def __init__(self, settings: Settings, name: str, device: str):
        self._settings, self._name, self._device = settings, name, device
        self._end = time.monotonic() + settings.deadline_ms / 1e3
        self._refused = {}  # by equation's key, with the equation, which keeps alive what the key names
        self._asked = {}  # by piece's key, likewise: what a program is asked of
        self._made = {}  # by piece's key: its call, or the error that it has none for

    def split(self, function: core.ClosedJaxpr, aliases: dict) -> _Level:
        """Errors: Unavailable (nobody answers)."""
        while True:
            top = self._level(function, aliases)
            pieces = {piece.key: piece for level in top.all() for piece in level.pieces}
            if any([self._ask(piece) for piece in pieces.values()]):
                continue
            if not self._make(pieces):
                return top

    def joined(self, level: _Level) -> core.ClosedJaxpr:
        """XLA's part of a function, with the calls of the rest."""
        kept = [(piece, self._made[piece.key]) for piece in level.pieces if self.is_made(piece)]
        calls = []
        for piece, call in kept:
            avals = tuple(var.aval for var in piece.piece.outvars)
            taken = call.taken(piece.aliases, piece.in_place)
            calls.append(piece.piece.called(call_p, call=call, aliases=taken, avals=avals))
        others = {}
        for i, inner in level.inner.items():
            rewritten = iter([self.joined(one) for one in inner])
            others[i] = _jaxprs.entered(level.graph.eqns[i], lambda _, made=rewritten: next(made))
        return _partition.joined(level.function, level.graph, [piece.piece for piece, _ in kept], calls, others)

    def is_made(self, piece: _Piece) -> bool:
        return isinstance(self._made[piece.key], _programs.Call)

    def count(self, top: _Level) -> None:
        """Tells the report what became of every operator. Errors: with fallback="error", that of the first that XLA would
        have to run."""
        for level in top.all():
            ours = {i for piece in level.pieces if self.is_made(piece) for i in piece.piece.group.numbers}
            failed = {i for piece in level.pieces if not self.is_made(piece) for i in piece.piece.group.numbers}
            for i, eqn in enumerate(level.graph.eqns):
                if i in level.inner or level.graph.kinds[i] is _partition.Kind.FLOATING:
                    continue  # counted inside; made by each of its readers
                operators = _operators(eqn)
                _count(operators, i in ours)
                if operators and i not in ours | failed and eqn.primitive.name not in LIBRARY:
                    self._keep(eqn)
            for piece in level.pieces:
                if self.is_made(piece):
                    self._made[piece.key].count()
                else:
                    fall_back(self._settings, self._name, self._made[piece.key])

    def _keep(self, eqn) -> None:
        if eqn.effects:
            reason = "it has effects"
        else:
            reason = self._reason(eqn) or ("there are products inside" if _has_library(eqn) else None)
        if reason is not None:
            error = errors.Unsupported(f"{eqn.primitive.name}: {reason}")
            fall_back(self._settings, self._name, error)

    def _reason(self, eqn) -> str | None:
        """Why an equation was refused."""
        if not self._refused:
            return None
        entry = self._refused.get(_jaxprs.key_of(_alone(eqn).jaxpr))
        return entry and entry[1]

    def _refuse(self, eqn, reason: str) -> None:
        self._refused[_jaxprs.key_of(_alone(eqn).jaxpr)] = eqn, reason

    def _is_foreign(self, eqn) -> bool:
        if eqn.effects or eqn.primitive.name in LIBRARY or is_word(eqn) or _has_library(eqn):
            return True
        if self._device == "cuda" and eqn.primitive.name in _OF_THE_HOST:
            return True
        return self._reason(eqn) is not None

    def _level(self, function: core.ClosedJaxpr, aliases: dict) -> _Level:
        jaxpr = function.jaxpr
        foreign = {i for i, eqn in enumerate(jaxpr.eqns) if self._is_foreign(eqn)}
        graph = _partition.Graph(jaxpr, foreign)
        groups = [g for g in _partition.groups_of(graph) if any(_operators(jaxpr.eqns[i]) for i in g)]
        level = _Level(function, graph, [])
        pieces = _partition.pieces_of(graph, groups)
        for piece in pieces:
            pairs = _partition.aliases_of(graph, pieces, piece, aliases)
            level.pieces.append(_Piece(level, piece, pairs, self._device == "cuda" and bool(pairs)))
        for i in foreign:
            if _jaxprs.can_enter(jaxpr.eqns[i]):
                inner = [_jaxprs.flat(one, custom=True) for one in _jaxprs.enterable(jaxpr.eqns[i])]
                level.inner[i] = [self._level(one, {}) for one in inner]
        return level

    def _ask(self, piece: _Piece) -> bool:
        """Finds out what a piece's program is asked of. Returns whether an equation was refused for that."""
        if piece.key in self._asked or piece.key in self._made:
            return False
        try:
            self._asked[piece.key] = _programs.asked(
                piece.piece.jaxpr, self._settings, self._name, self._device, piece.in_place
            )
            return False
        except errors.Error as error:
            refused = [(eqn, reason) for eqn in piece.equations() if (reason := _why_not(eqn)) is not None]
            for eqn, reason in refused:
                self._refuse(eqn, reason)
            if not refused:
                self._made[piece.key] = error
            return bool(refused)

    def _make(self, pieces: dict) -> bool:
        """Asks for all programs at once. Returns whether an equation was refused for want of one."""
        waiting = {key: piece for key, piece in pieces.items() if key not in self._made}

        def made(key):
            left = max(0, round((self._end - time.monotonic()) * 1e3))
            try:
                return _programs.made(self._asked[key], left, reference=False)
            except errors.Unavailable:
                raise
            except errors.Error as error:
                return error

        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as threads:
            answers = dict(zip(waiting, threads.map(made, waiting), strict=True))
        refused = False
        for key, answer in answers.items():
            loops = [eqn for eqn in waiting[key].equations() if eqn.primitive.name in _jaxprs.CONTROL]
            if isinstance(answer, errors.Unsupported) and loops:
                for eqn in loops:  # what is inside may have kernels
                    self._refuse(eqn, str(answer))
                refused = True
            else:
                self._made[key] = answer
        return refused


def around_effects(function: core.ClosedJaxpr, primitive: core.Primitive, **params) -> tuple[core.ClosedJaxpr, list]:
    """A function in which what has no effects is calls (`primitive`, with `params` and a `jaxpr`), also inside of loops and
    branches; and the equations with effects. Derivatives that equations have rules of their own for they keep."""
    flat = _jaxprs.flat(function, custom=False)
    eqns = flat.jaxpr.eqns
    kept, others = [], {}
    foreign = {i for i, eqn in enumerate(eqns) if eqn.effects}
    for i in sorted(foreign):
        if not _jaxprs.can_enter(eqns[i]):
            kept.append(eqns[i])
            continue
        inner = [around_effects(one, primitive, **params) for one in _jaxprs.enterable(eqns[i])]
        kept += [eqn for _, some in inner for eqn in some]
        rewritten = iter([one for one, _ in inner])
        others[i] = _jaxprs.entered(eqns[i], lambda _, made=rewritten: next(made))
    graph = _partition.Graph(flat.jaxpr, foreign)
    groups = [g for g in _partition.groups_of(graph) if any(_operators(eqns[i]) for i in g)]
    pieces = _partition.pieces_of(graph, groups)
    calls = [piece.called(primitive, jaxpr=piece.jaxpr, **params) for piece in pieces]
    return _partition.joined(flat, graph, pieces, calls, others), kept


def _count(operators: list, ours: bool) -> None:
    products = sum(one.primitive.name in LIBRARY for one in operators)
    _report.count("operators", len(operators))
    _report.count("operators_library", products)
    if ours:
        _report.count("operators_ours", len(operators) - products)


def fall_back(settings: Settings, name: str, error: errors.Error) -> None:
    """XLA runs something. Errors: the error, where that is not to be."""
    if settings.fallback == "error":
        raise error
    _report.fell_back(name, str(error))


def whole(function: core.ClosedJaxpr, settings: Settings, name: str, device: str, aliases: dict) -> core.ClosedJaxpr:
    """A function as one call, of all that is inside. `aliases` as of `split`. Errors: Unsupported, ConstraintError,
    PlanMissing, Unavailable, Timeout."""
    in_place = device == "cuda" and bool(aliases)
    asked = _programs.asked(function, settings, name, device, in_place)
    call = _programs.made(asked, settings.deadline_ms, reference=settings.products != "xla")
    _count([one for eqn in _jaxprs.flat(function, custom=True).jaxpr.eqns for one in _operators(eqn)], ours=True)
    call.count()
    jaxpr, new_var = function.jaxpr, core.gensym()
    outvars = [new_var(aval) for aval in function.out_avals]
    params = {"call": call, "aliases": call.taken(aliases.items(), in_place), "avals": tuple(function.out_avals)}
    eqn = core.new_jaxpr_eqn(jaxpr.invars, outvars, call_p, params, core.no_effects)
    return core.ClosedJaxpr(_jaxprs.jaxpr_of(jaxpr.invars, outvars, [eqn]), ())


def split(function: core.ClosedJaxpr, settings: Settings, name: str, device: str, aliases: dict) -> core.ClosedJaxpr:
    """A function as XLA is to have it: with products and what has no kernel of ours as they are, and the rest as pieces.

    `device`: "emulated" or "cuda"; `aliases`: the results that are to take arguments' memory, by argument. Errors:
    Unavailable (nobody answers); Unsupported (symbolic extents); Error (it cannot be split); with fallback="error" that of
    what XLA would have to run.
    """
    _programs.check_extents(function)
    flat = _jaxprs.flat(function, custom=True)
    if not any(
        eqn.effects or is_word(eqn) or eqn.primitive.name in LIBRARY for eqn in _jaxprs.equations(flat.jaxpr)
    ):
        try:
            return whole(function, settings, name, device, aliases)
        except errors.Unsupported:
            pass  # some of it is XLA's
    splitter = _Splitter(settings, name, device)
    try:
        top = splitter.split(flat, aliases)
        joined = splitter.joined(top)
    except errors.Error:
        raise
    except Exception as error:  # whatever a future JAX has that is not foreseen here, XLA runs
        raise errors.Error(f"it cannot be split into pieces: {type(error).__name__}: {error}") from error
    splitter.count(top)
    return joined
