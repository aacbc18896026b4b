"""`stitch.jax.jit`."""

import functools
import inspect
import typing

import jax

from .. import _native
from . import _primitive, _report
from .._settings import nearest
from ._options import Settings, check, list_options, settings_of

_JAX_OPTIONS = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames", "keep_unused", "inline")
_WITHOUT_HEADERS = "this build of the package was made without XLA's headers (jaxlib was not installed)"


def jit(fun: typing.Callable | None = None, **options: typing.Any) -> typing.Any:
    """Makes a function run as one program of Stitch's, as `jax.jit` makes it run as one of XLA's.

    Takes `static_argnums`, `static_argnames`, `donate_argnums`, `donate_argnames`, `keep_unused` and `inline` as
    `jax.jit` does, and what `list_options` names (`device`, `fallback`, `deadline_ms`, …). What it returns is a
    function of `jax.jit`'s: it composes with jit, grad, vmap, jvp, scan, checkpoint and export, and has `lower`, `trace` and the
    rest. May be used as a decorator, with or without options. Errors: TypeError (an unknown option, with the nearest),
    ValueError (its value); while tracing those of the function, and with fallback="error" a stitch.Error.
    """
    known = [*list_options(), *_JAX_OPTIONS]
    for name in options:
        if name not in known:
            raise TypeError(f"stitch.jax.jit has no option {name!r}{nearest(name, known)}; it has {known}")
    ours = {name: value for name, value in options.items() if name in list_options()}
    theirs = {name: value for name, value in options.items() if name in _JAX_OPTIONS}
    check(ours)
    if fun is None:
        return functools.partial(jit, **options)

    @functools.wraps(fun)
    def called(*args, **kwargs):
        settings = settings_of(ours)
        name = getattr(fun, "__name__", type(fun).__name__)
        if settings.disable:
            return fun(*args, **kwargs)
        if _native.xla_handler() is None:
            _refuse(settings, name, _WITHOUT_HEADERS)
            return fun(*args, **kwargs)
        return _call(fun, args, kwargs, settings, name, donates)

    donates = _Donation(fun, theirs)
    return jax.jit(called, **theirs)


def _refuse(settings: Settings, name: str, reason: str) -> None:
    if settings.fallback == "error":
        from .. import errors

        raise errors.Unsupported(f"{name}: {reason}")
    _report.fell_back(name, reason)


class _Donation:
    """Which arguments of a function are donated, by position or name, as jax.jit understands it."""

    def __init__(self, fun, options: dict):
        numbers, names = options.get("donate_argnums"), options.get("donate_argnames")
        self._numbers = {numbers} if isinstance(numbers, int) else set(numbers or ())
        self._names = {names} if isinstance(names, str) else set(names or ())
        try:
            parameters = list(inspect.signature(fun).parameters.values())
        except (TypeError, ValueError):  # a function of C's: names are not told
            return
        places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        positional = [parameter.name for parameter in parameters if parameter.kind in places]
        if numbers is not None and names is None:
            self._names = {positional[i] for i in self._numbers if 0 <= i < len(positional)}
        elif names is not None and numbers is None:
            self._numbers = {positional.index(name) for name in self._names if name in positional}

    def leaves(self, args, kwargs) -> list[bool]:
        """Of each leaf of `(args, kwargs)`."""
        found = []
        for i, argument in enumerate(args):
            found += [i in self._numbers] * len(jax.tree.leaves(argument))
        for name in sorted(kwargs):  # as a tree has them
            found += [name in self._names] * len(jax.tree.leaves(kwargs[name]))
        return found


def _is_key(value) -> bool:
    return jax.dtypes.issubdtype(jax.typeof(value).dtype, jax.dtypes.prng_key)


class _Leaves:
    """Keys of random numbers as the integers that they are, and back."""

    def __init__(self, leaves):
        self._kinds = [jax.random.key_impl(leaf) if _is_key(leaf) else None for leaf in leaves]

    def lower(self, leaves) -> list:
        return [
            leaf if kind is None else jax.random.key_data(leaf) for kind, leaf in zip(self._kinds, leaves, strict=True)
        ]

    def lift(self, leaves) -> list:
        return [
            leaf if kind is None else jax.random.wrap_key_data(leaf, impl=kind)
            for kind, leaf in zip(self._kinds, leaves, strict=True)
        ]


def _call(fun, args, kwargs, settings: Settings, name: str, donates: _Donation):
    """The call in the place of the function, or the function where it does more than compute."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    # Static arguments are no leaves that a jaxpr can have; jax.jit has made all others arrays.
    held = {i: leaf for i, leaf in enumerate(leaves) if not isinstance(leaf, jax.Array)}
    dynamic = [leaf for i, leaf in enumerate(leaves) if i not in held]
    inputs = _Leaves(dynamic)
    outputs, result_tree = None, None

    def flat(*arrays):
        nonlocal outputs, result_tree
        rest = iter(inputs.lift(arrays))
        whole = [held[i] if i in held else next(rest) for i in range(len(leaves))]
        got_args, got_kwargs = jax.tree.unflatten(tree, whole)
        results, result_tree = jax.tree.flatten(fun(*got_args, **got_kwargs))
        outputs = _Leaves(results)
        return outputs.lower(results)

    arrays = inputs.lower(dynamic)
    jaxpr, constants = _primitive.traced(flat, *arrays)
    if jaxpr.effects:
        _refuse(settings, name, f"it has effects ({', '.join(sorted(str(effect) for effect in jaxpr.effects))})")
        return fun(*args, **kwargs)
    given = donates.leaves(args, kwargs)
    places = [i for i in range(len(leaves)) if i not in held]
    donated = tuple(len(constants) + i for i, place in enumerate(places) if given[place])
    results = _primitive.call_p.bind(*constants, *arrays, jaxpr=jaxpr, settings=settings, name=name, donated=donated)
    return jax.tree.unflatten(result_tree, outputs.lift(results))
