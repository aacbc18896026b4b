"""The primitives that stand for functions of ours, with the rules by which JAX's transformations go through them.

A call holds the jaxpr of its function. A transformation makes the jaxpr of what it wants (the batched function, the
function with what its derivative needs, the derivative, its transpose) and calls that; which calls are left when the
whole is lowered are split into XLA's part and programs (`_pieces`), and no others are ever made.
"""

import collections
import functools

import jax
from jax.extend import core
from jax.interpreters import ad, batching, mlir, xla

from .. import _native, errors
from . import _partition, _pieces

CUSTOM_CALL = "stitch_run"

call_p = core.Primitive("stitch_call")
"""A function: `jaxpr` (without constants), `settings`, `name` for people; `donated`: the arguments whose memory results
may take. Calls that transformations make of it take none."""
linear_p = core.Primitive("stitch_linear_call")
"""A function that is linear in its arguments behind the first `held`; otherwise as call_p."""


def traced(function, *arguments) -> tuple[core.ClosedJaxpr, list]:
    """The jaxpr of a function of arrays, and the constants that are its first arguments."""
    closed = jax.make_jaxpr(function)(*arguments)
    constants = list(closed.consts)
    if not constants:
        return closed, constants

    def of_all(*values):
        held, rest = values[: len(constants)], values[len(constants) :]
        return core.jaxpr_as_fun(core.ClosedJaxpr(closed.jaxpr, held))(*rest)

    return jax.make_jaxpr(of_all)(*constants, *arguments), constants


def _avals_of(arrays) -> list:
    return [jax.typeof(array) for array in arrays]


def _abstract(*_, jaxpr, **params):
    return jaxpr.out_avals


def _whole(*arguments, jaxpr, **params):
    """The function itself: what XLA runs where there is no program."""
    return core.jaxpr_as_fun(jaxpr)(*arguments)


_lower_whole = mlir.lower_fun(_whole, multiple_results=True)


def _aliases(jaxpr, donated) -> dict:
    """Which result takes a donated argument's memory (argument → result): the first of its type, as jax.jit has it."""
    waiting = collections.defaultdict(collections.deque)
    for argument in donated:
        aval = jaxpr.in_avals[argument]
        waiting[aval.shape, aval.dtype].append(argument)
    found = {}
    for result, aval in enumerate(jaxpr.out_avals):
        if arguments := waiting.get((aval.shape, aval.dtype)):
            found[arguments.popleft()] = result
    return found


def _lower(context, *operands, jaxpr, settings, name, device, donated=()):
    aliases = _aliases(jaxpr, donated)
    try:
        if device == "emulated" and settings.device != "emulated":
            raise errors.Unsupported('arrays of the CPU have kernels only on the emulated device (device="emulated")')
        if settings.products == "xla":
            function = _pieces.split(jaxpr, settings, name, device, aliases)
        else:
            function = _pieces.whole(jaxpr, settings, name, device, aliases)
    except errors.Error as error:
        _pieces.fall_back(settings, name, error)
        function = jaxpr
    return _lower_whole(context, *operands, jaxpr=function)


def _lower_piece(context, *operands, call, aliases, avals):
    rule = jax.ffi.ffi_lowering(CUSTOM_CALL, operand_output_aliases=dict(aliases))
    return rule(context, *operands, name=call.name, package=call.package)


def _lower_cpu(context, *operands, held=0, **params):
    return _lower(context, *operands, device="emulated", **params)


def _lower_cuda(context, *operands, held=0, **params):
    return _lower(context, *operands, device="cuda", **params)


def _batch(primitive, arguments, dimensions, *, jaxpr, donated=(), **params):
    function = jax.vmap(core.jaxpr_as_fun(jaxpr), in_axes=tuple(dimensions), out_axes=0)
    batched, constants = traced(function, *_avals_of(arguments))
    if "held" in params:
        params["held"] += len(constants)
    results = primitive.bind(*constants, *arguments, jaxpr=batched, **params)
    return results, [0] * len(results)


def _jvp(primals, tangents, *, jaxpr, held=0, donated=(), **params):
    """The function with what its derivative needs is one call, the derivative another."""
    active = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]
    function = core.jaxpr_as_fun(jaxpr)
    derivative = None

    def forward(*primals):
        def of_active(*some):
            whole = list(primals)
            for i, value in zip(active, some, strict=True):
                whole[i] = value
            return function(*whole)

        nonlocal derivative
        results, linear = jax.linearize(of_active, *[primals[i] for i in active])
        needed, derivative = jax.tree.flatten(linear)
        return [*results, *needed]

    with_needed, constants = traced(forward, *_avals_of(primals))
    count, again = len(jaxpr.out_avals), None
    if params["settings"].products == "xla":
        with_needed, again = _partition.with_fewer_results(with_needed, count)
    outputs = call_p.bind(*constants, *primals, jaxpr=with_needed, **params)
    results, needed = outputs[:count], outputs[count:]

    # Integers have no derivative, and nothing computes one.
    moving = [i for i, aval in enumerate(jaxpr.out_avals) if jax.dtypes.issubdtype(aval.dtype, jax.numpy.inexact)]

    def apply(*arguments):
        held, some = arguments[: len(needed)], arguments[len(needed) :]
        moved = derivative.unflatten(held if again is None else core.jaxpr_as_fun(again)(*held))(*some)
        return [moved[i] for i in moving]

    moved = [ad.Zero(aval.to_tangent_aval()) for aval in jaxpr.out_avals]
    if moving:
        some = [tangents[i] for i in active]
        linear, constants = traced(apply, *_avals_of([*needed, *some]))
        held = len(constants) + len(needed)
        values = linear_p.bind(*constants, *needed, *some, jaxpr=linear, held=held, **params)
        for i, value in zip(moving, values, strict=True):
            moved[i] = value
    return results, moved


def _transpose(cotangents, *arguments, jaxpr, held, **params):
    """The transpose in the arguments that are not known is a call of the known ones and the cotangents."""
    unknown = [i for i, argument in enumerate(arguments) if ad.is_undefined_primal(argument)]
    known = [i for i in range(held)]
    avals = jaxpr.in_avals
    cotangents = [ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    function = core.jaxpr_as_fun(jaxpr)

    def backward(*given):
        values, some = given[: len(known)], given[len(known) :]

        def of_unknown(*moved):
            whole = [jax.numpy.zeros(aval.shape, aval.dtype) for aval in avals]
            whole[:held] = values
            for i, value in zip(unknown, moved, strict=True):
                whole[i] = value
            return function(*whole)

        return jax.linear_transpose(of_unknown, *[avals[i] for i in unknown])(list(some))

    values = [arguments[i] for i in known]
    back, constants = traced(backward, *_avals_of([*values, *cotangents]))
    moved = call_p.bind(*constants, *values, *cotangents, jaxpr=back, **params)
    result = [None] * len(arguments)
    for i, value in zip(unknown, moved, strict=True):
        result[i] = value
    return result


def _install() -> None:
    for primitive in (call_p, linear_p):
        primitive.multiple_results = True
        primitive.def_impl(functools.partial(xla.apply_primitive, primitive))
        primitive.def_abstract_eval(_abstract)
        batching.primitive_batchers[primitive] = functools.partial(_batch, primitive)
        ad.primitive_jvps[primitive] = _jvp
        # On other platforms there is no handler of ours: XLA runs the function.
        mlir.register_lowering(primitive, _lower_whole)
        mlir.register_lowering(primitive, _lower_cpu, platform="cpu")
        mlir.register_lowering(primitive, _lower_cuda, platform="cuda")
    ad.primitive_transposes[linear_p] = _transpose
    _pieces.call_p.multiple_results = True
    _pieces.call_p.def_abstract_eval(lambda *_, avals, **params: avals)
    mlir.register_lowering(_pieces.call_p, _lower_piece)
    handler = _native.xla_handler()
    if handler is not None:
        jax.ffi.register_ffi_target(CUSTOM_CALL, handler, platform="cpu")
        jax.ffi.register_ffi_target(CUSTOM_CALL, _native.xla_stream_handlers(), platform="CUDA")


_install()
