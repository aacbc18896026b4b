"""Jaxprs taken apart and put together."""

import jax
import numpy
from jax.extend import core

_REMAT = ("checkpoint", "remat", "remat2")
_INLINED = {
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "jit": "jaxpr",
    "pjit": "jaxpr",
    **dict.fromkeys(_REMAT, "jaxpr"),
}
# With rules of their own for derivatives, which are gone when they are inlined.
_CUSTOM = {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
_ENTERED = {
    "cond": ("branches",),
    "jit": ("jaxpr",),
    "pjit": ("jaxpr",),
    "scan": ("jaxpr",),
    "while": ("cond_jaxpr", "body_jaxpr"),
    **dict.fromkeys(_REMAT, ("jaxpr",)),
}
OF_TYPES = ("pcast", "pvary")
"""Of shard_map's types alone."""
CONTROL = ("cond", "scan", "while")


def closed(jaxpr) -> core.ClosedJaxpr:
    return jaxpr if isinstance(jaxpr, core.ClosedJaxpr) else core.ClosedJaxpr(jaxpr, ())


def jaxpr_of(invars, outvars, eqns, constvars=()) -> core.Jaxpr:
    """A jaxpr without effects of equations that are there."""
    names = tuple(f"x{i}" for i in range(len(invars))), tuple(f"y{i}" for i in range(len(outvars)))
    return core.Jaxpr(constvars, invars, outvars, eqns, debug_info=core.DebugInfo("stitch", "stitch.jax", *names))


def of_one_device(function: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The same without what says over which axes of a shard_map values vary."""
    if not any(eqn.primitive.name in OF_TYPES for eqn in function.jaxpr.eqns):
        return function
    same, kept = {}, []

    def read(atom):
        return same.get(atom, atom) if isinstance(atom, core.Var) else atom

    for eqn in function.jaxpr.eqns:
        if eqn.primitive.name in OF_TYPES:
            same.update(zip(eqn.outvars, map(read, eqn.invars), strict=True))
        else:
            kept.append(eqn.replace(invars=[*map(read, eqn.invars)]))
    outvars = [*map(read, function.jaxpr.outvars)]
    return core.ClosedJaxpr(function.jaxpr.replace(eqns=kept, outvars=outvars), function.consts)


def nested(eqn) -> list[core.ClosedJaxpr]:
    """The jaxprs in an equation's parameters."""
    found = []
    for value in eqn.params.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, (core.Jaxpr, core.ClosedJaxpr)):
                found.append(closed(one))
    return found


def equations(jaxpr):
    """All equations, those of nested jaxprs as well, which stand behind theirs."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in nested(eqn):
            yield from equations(inner)


def _says_more(eqn) -> bool:
    """Whether XLA is told more by a call than what it computes: where it is sharded, options of the compiler's, what is
    to be computed twice."""
    name, params = eqn.primitive.name, eqn.params
    if name in _REMAT:
        prevents = params.get("prevent_cse", False)
        return params.get("differentiated", False) and (any(prevents) if isinstance(prevents, tuple) else prevents)
    shardings = [*params.get("in_shardings", ()), *params.get("out_shardings", ())]
    layouts = [*params.get("in_layouts", ()), *params.get("out_layouts", ())]
    return bool(
        any(isinstance(one, jax.sharding.Sharding) for one in shardings)
        or any(one is not None for one in layouts)
        or params.get("compiler_options_kvs")
    )


def _inlined(eqn, custom: bool) -> core.ClosedJaxpr | None:
    name = eqn.primitive.name
    if name in _CUSTOM:
        return closed(eqn.params[_CUSTOM[name]]) if custom else None
    return closed(eqn.params[_INLINED[name]]) if name in _INLINED and not _says_more(eqn) else None


def flat(function: core.ClosedJaxpr, custom: bool) -> core.ClosedJaxpr:
    """The same without calls that are no more than the equations inside, and without what nobody reads. `custom`: those
    with rules of their own for derivatives, too, which are lost."""
    new_var = core.gensym()
    constvars, consts = list(function.jaxpr.constvars), list(function.consts)
    eqns = []

    def add(jaxpr, env: dict) -> list:
        def read(atom):
            return atom if isinstance(atom, core.Literal) else env[atom]

        for eqn in jaxpr.eqns:
            arguments = [read(atom) for atom in eqn.invars]
            inner = _inlined(eqn, custom)
            if inner is None:
                results = [new_var(var.aval) for var in eqn.outvars]
                eqns.append(eqn.replace(invars=arguments, outvars=results))
            else:
                held = [new_var(var.aval) for var in inner.jaxpr.constvars]
                constvars.extend(held)
                consts.extend(inner.consts)
                names = [*inner.jaxpr.constvars, *inner.jaxpr.invars]
                results = add(inner.jaxpr, dict(zip(names, [*held, *arguments], strict=True)))
            env.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    own = [*function.jaxpr.constvars, *function.jaxpr.invars]
    outvars = add(function.jaxpr, dict(zip(own, own, strict=True)))
    read = {atom for atom in outvars if isinstance(atom, core.Var)}
    live = []
    for eqn in reversed(eqns):
        if eqn.effects or not read.isdisjoint(eqn.outvars):
            live.append(eqn)
            read.update(atom for atom in eqn.invars if isinstance(atom, core.Var))
    return core.ClosedJaxpr(
        function.jaxpr.replace(constvars=constvars, outvars=outvars, eqns=live[::-1]),
        consts,
    )


def can_enter(eqn) -> bool:
    return eqn.primitive.name in _ENTERED


def enterable(eqn) -> list[core.ClosedJaxpr]:
    """The jaxprs inside that `entered` may put others in the place of, in its order."""
    found = []
    entered(eqn, lambda one: found.append(one) or one)
    return found


def entered(eqn, rewrite):
    """An equation with `rewrite` of the jaxprs inside."""
    params = dict(eqn.params)
    for name in _ENTERED[eqn.primitive.name]:
        value = params[name]
        if isinstance(value, tuple):
            params[name] = tuple(rewrite(closed(one)) for one in value)
        elif isinstance(value, core.ClosedJaxpr):
            params[name] = rewrite(value)
        else:
            params[name] = _open(rewrite(closed(value)))
    return eqn.replace(params=params)


def _open(function: core.ClosedJaxpr) -> core.Jaxpr:
    """A jaxpr whose constants stand where they are read."""
    values = {
        var: core.Literal(const, var.aval) for var, const in zip(function.jaxpr.constvars, function.consts, strict=True)
    }
    if not values:
        return function.jaxpr

    def read(atom):
        return values.get(atom, atom) if isinstance(atom, core.Var) else atom

    eqns = [eqn.replace(invars=[*map(read, eqn.invars)]) for eqn in function.jaxpr.eqns]
    return function.jaxpr.replace(constvars=[], eqns=eqns, outvars=[*map(read, function.jaxpr.outvars)])


def variables(eqn) -> list[core.Var]:
    """What an equation reads but for numbers."""
    return [atom for atom in eqn.invars if isinstance(atom, core.Var)]


def is_key(aval) -> bool:
    return jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended)


def elements(aval) -> int:
    """How many it has; 1 where it has no shape (a token, a reference)."""
    return int(numpy.prod(getattr(aval, "shape", ()), dtype=numpy.int64))


def bytes_of(aval) -> int:
    if not hasattr(aval, "dtype") or is_key(aval):
        return 0
    return elements(aval) * numpy.dtype(aval.dtype).itemsize


class Bits:
    """Variables that are keys of random numbers, as the integers that these are: calls of other languages take no keys."""

    def __init__(self):
        self._new = core.gensym()
        self._known = {}

    def of(self, var) -> core.Var:
        """The variable of the integers; of any other the same."""
        if not is_key(var.aval):
            return var
        if var not in self._known:
            unwrap, wrap = _there_and_back(var.aval)
            self._known[var] = self._new(unwrap.outvars[0].aval), unwrap, wrap
        return self._known[var][0]

    def lower(self, variables) -> list:
        """Equations that make the integers of those that are keys."""
        keys = [(var, self.of(var)) for var in variables if is_key(var.aval)]
        return [self._known[var][1].replace(invars=[var], outvars=[bits]) for var, bits in keys]

    def lift(self, variables) -> list:
        """Equations that make the keys again."""
        keys = [(var, self.of(var)) for var in variables if is_key(var.aval)]
        return [self._known[var][2].replace(invars=[bits], outvars=[var]) for var, bits in keys]


def _there_and_back(aval):
    def same(key):
        return jax.random.wrap_key_data(jax.random.key_data(key), impl=jax.random.key_impl(key))

    unwrap, wrap = flat(jax.make_jaxpr(same)(jax.ShapeDtypeStruct(aval.shape, aval.dtype)), custom=True).jaxpr.eqns
    return unwrap, wrap


def _value_key(value):
    """Something hashable that two values share only if they are the same."""
    if isinstance(value, core.ClosedJaxpr):
        return ("jaxpr", key_of(value.jaxpr), tuple(id(const) for const in value.consts))
    if isinstance(value, core.Jaxpr):
        return ("jaxpr", key_of(value))
    if isinstance(value, (tuple, list)):
        return tuple(map(_value_key, value))
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return (str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, float):  # 0.0 == -0.0, and nan is nothing's equal
        return ("float", value.hex())
    try:
        hash(value)
    except TypeError:
        return id(value)
    return (type(value), value)


def key_of(jaxpr: core.Jaxpr) -> tuple:
    """Something hashable that jaxprs have in common only if they compute the same. As long as these exist: it may hold
    places in memory."""
    numbers = {}

    def name(var) -> int:
        return numbers.setdefault(var, len(numbers))

    def atom(one):
        if isinstance(one, core.Literal):
            return (_value_key(one.val), str(one.aval))
        return name(one)

    avals = tuple((name(var), str(var.aval), var.aval.weak_type) for var in [*jaxpr.constvars, *jaxpr.invars])
    body = tuple(
        (
            eqn.primitive.name,
            tuple((param, _value_key(value)) for param, value in sorted(eqn.params.items())),
            str(getattr(eqn.ctx, "threefry_partitionable", None)),
            tuple(map(atom, eqn.invars)),
            tuple((name(var), str(var.aval)) for var in eqn.outvars),
        )
        for eqn in jaxpr.eqns
    )
    return (avals, body, tuple(map(atom, jaxpr.outvars)))
