"""`stitch.jax.jit` beside plain JAX: values, derivatives, batches, loops, exports, and what XLA runs instead."""

import logging
import os
import subprocess
import sys

import numpy
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")

import jax.numpy as jnp  # noqa: E402
from conftest import jobs_of, servers, settled  # noqa: E402
from daemons import stop  # noqa: E402
from test_server import own  # noqa: E402, F401
from jax.extend import core  # noqa: E402

import stitch  # noqa: E402
from stitch import _native  # noqa: E402

if _native.xla_handler() is None:
    pytest.skip("the native module was built without XLA's headers", allow_module_level=True)

import stitch.jax  # noqa: E402
from stitch.jax import _jaxprs, _partition, _programs  # noqa: E402

# Patient, for machines that have other things to do.
OURS = {"device": "emulated", "fallback": "error", "improve": False, "deadline_ms": 600_000}


@pytest.fixture(autouse=True)
def counts():
    stitch.jax.reset()


def norm(x, g):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * g


def loss(w, x, g):
    return jnp.sum(jnp.tanh(norm(x @ w, g)) ** 2)


def arguments(seed=1):
    random = numpy.random.default_rng(seed)
    return [jnp.asarray(random.standard_normal(shape, "float32")) for shape in ((16, 32), (8, 16), (32,))]


def close(ours, theirs, tolerance=2e-5):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        numpy.testing.assert_allclose(
            numpy.asarray(one, "float64"), numpy.asarray(other, "float64"), rtol=tolerance, atol=tolerance
        )


def test_a_function_runs_as_a_program():
    ours = stitch.jax.jit(loss, **OURS)
    close(ours(*arguments()), loss(*arguments()))
    report = stitch.jax.report()
    assert report["calls"] == 1 and report["runs"] == 1 and report["fell_back"] == [], report


def test_trees_static_arguments_and_keywords():
    @stitch.jax.jit(static_argnames=("power",), **OURS)
    def scaled(tree, *, power, by):
        return {"a": tree["a"] ** power * by, "b": (tree["b"] + by, jnp.arange(3) + tree["b"].astype("int32"))}

    tree = {"a": jnp.linspace(0.5, 2, 96).reshape(8, 12), "b": jnp.ones(3)}
    close(scaled(tree, power=3, by=2.0), {"a": tree["a"] ** 3 * 2.0, "b": (tree["b"] + 2.0, jnp.arange(3) + 1)})


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jax.grad(f, argnums=(0, 2)),
        lambda f: jax.value_and_grad(f),
        lambda f: jax.jit(jax.grad(f)),
        lambda f: lambda w, x, g: jax.vmap(f, in_axes=(None, 0, None))(w, jnp.stack([x, 2 * x, -x]), g),
        lambda f: lambda w, x, g: jax.vmap(jax.grad(f), in_axes=(None, 0, None))(w, jnp.stack([x, 2 * x]), g),
        lambda f: (
            lambda w, x, g: jax.grad(lambda v: jax.vmap(f, (None, 0, None))(v, jnp.stack([x, 2 * x]), g).sum())(w)
        ),
        lambda f: lambda w, x, g: jax.jvp(f, (w, x, g), (w + 1, x - 1, g * 2)),
        lambda f: lambda w, x, g: jax.linearize(lambda v: f(v, x, g), w)[1](w + 1),
        lambda f: lambda w, x, g: jax.grad(lambda v: jax.grad(f)(v, x, g).sum())(w),
        lambda f: lambda w, x, g: jax.hessian(lambda v: f(w, x, v))(g),
        lambda f: lambda w, x, g: jax.grad(jax.checkpoint(f))(w, x, g),
    ],
    ids="grad value_and_grad jit_grad vmap vmap_grad grad_vmap jvp linearize grad_grad hessian checkpoint".split(),
)
def test_transformations(transform):
    close(transform(stitch.jax.jit(loss, **OURS))(*arguments()), transform(loss)(*arguments()), 2e-4)
    report = stitch.jax.report()
    assert report["runs"] >= 1 and report["fell_back"] == [], report


def test_forward_and_derivative_are_programs():
    whole = {**OURS, "products": "library"}
    jax.jit(jax.value_and_grad(stitch.jax.jit(loss, **whole)))(*arguments())
    report = stitch.jax.report()
    # The forward pass with what the backward pass needs, and the backward pass.
    assert report["calls"] == 2 and report["runs"] == 2 and report["library_calls"] == 2, report


def calls_of(text: str) -> int:
    return text.count("@stitch_run") + text.count('custom_call_target="stitch_run"')


def layer(x, weights, heads=2):
    """Of a transformer."""
    q, k, v, out, up, down, first, second, bias = weights
    y = norm(x, first)
    q, k, v = ((y @ w + bias[: y.shape[-1]]).reshape(*x.shape[:2], heads, -1) for w in (q, k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1] * 1.0)
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    scores = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), -1)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(x.shape) @ out
    return x + jax.nn.gelu(norm(x, second) @ up + bias) @ down


def layer_arguments(width=16):
    random = numpy.random.default_rng(2)
    shapes = [(width, width)] * 4 + [(width, 4 * width), (4 * width, width), (width,), (width,), (4 * width,)]
    weights = [jnp.asarray(random.standard_normal(shape) / 4, "float32") for shape in shapes]
    return jnp.asarray(random.standard_normal((2, 8, width)), "float32"), weights


def test_products_are_xlas_and_what_is_between_them_is_ours():
    ours, (x, weights) = stitch.jax.jit(layer, **OURS), layer_arguments()
    close(ours(x, weights), layer(x, weights))
    lowered = ours.lower(x, weights)
    report, text = stitch.jax.report(), lowered.as_text()
    assert text.count("stablehlo.dot_general") == 8 and calls_of(text) == calls_of(lowered.compile().as_text())
    # Before the products, at queries, keys and values, at scores, between attention and MLP, inside of it, behind it:
    # calls between products, no more.
    assert calls_of(text) == report["runs"] == report["launches"] == 6, report
    assert report["operators_library"] == 8 and report["library_calls"] == 0 and report["fell_back"] == [], report
    assert report["operators_ours"] == report["operators"] - report["operators_library"], report


def test_equal_layers_are_one_program_each():
    def stack(x, weights):
        for _ in range(3):
            x = layer(x, weights)
        return x

    x, weights = layer_arguments()
    close(stitch.jax.jit(stack, **OURS)(x, weights), stack(x, weights), 1e-4)
    report = stitch.jax.report()
    # Of each layer five, and one before the first; no more programs than one layer and its ends have.
    assert report["calls"] == 16 and report["programs"] <= 7, report


@pytest.mark.parametrize("products", ["library", "faster", "ours"])
def test_products_may_be_steps_of_one_program(products):
    ours, (x, weights) = stitch.jax.jit(layer, **{**OURS, "products": products}), layer_arguments()
    lowered = ours.lower(x, weights)
    assert calls_of(lowered.as_text()) == 1 and "dot_general" not in lowered.as_text()
    close(lowered.compile()(x, weights), layer(x, weights))
    assert (stitch.jax.report()["library_calls"] > 0) == (products != "ours"), stitch.jax.report()


def test_precision_and_types_of_products_are_kept():
    def function(a, b):
        c = jnp.dot(jnp.tanh(a) * 2, b, precision=jax.lax.Precision.HIGHEST)
        half = jnp.dot(c.astype("bfloat16"), b.T.astype("bfloat16"), preferred_element_type=jnp.float32)
        return jax.nn.softmax(half)

    a, b = arguments()[:2]
    ours = stitch.jax.jit(function, **OURS)
    text = ours.lower(a.T, b.T).as_text()
    assert "precision = [HIGHEST, HIGHEST]" in text and calls_of(text) == 3
    assert any("dot_general" in line and "bf16>) -> tensor" in line and line.endswith("xf32>") for line in text.splitlines())
    close(ours(a.T, b.T), function(a.T, b.T), 1e-2)


def test_convolutions_are_xlas():
    def function(x, kernel, g):
        y = jax.lax.conv_general_dilated(norm(x, g), kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.nn.relu(y).mean((1, 2))

    random = numpy.random.default_rng(4)
    values = [jnp.asarray(random.standard_normal(shape), "float32") for shape in ((2, 8, 8, 4), (3, 3, 4, 6), (4,))]
    ours = jax.jit(jax.grad(lambda *values: stitch.jax.jit(function, **OURS)(*values).sum(), argnums=(0, 1, 2)))
    close(ours(*values), jax.grad(lambda *values: function(*values).sum(), argnums=(0, 1, 2))(*values), 1e-4)
    text = ours.lower(*values).as_text()
    assert text.count("stablehlo.convolution") >= 2 and stitch.jax.report()["fell_back"] == []
    # The reversed weights tell XLA that it is a convolution's gradient.
    assert "stablehlo.reverse" in text


def test_what_is_made_of_constants_is_made_by_its_readers():
    def function(x, w):
        mask = jnp.arange(8)[:, None] >= jnp.arange(8)
        for _ in range(2):
            x = jax.nn.softmax(jnp.where(mask, x @ w, -1e9))
        return x

    x, w = jnp.ones((8, 8)), jnp.eye(8) * 2
    ours = stitch.jax.jit(function, **OURS)
    close(ours(x, w), function(x, w))
    # Each call reads what the product gives and nothing else.
    calls = [line for line in ours.lower(x, w).as_text().splitlines() if "@stitch_run" in line]
    assert len(calls) == 2 and all(line.rstrip().endswith(": (tensor<8x8xf32>) -> tensor<8x8xf32>") for line in calls), calls


def test_what_is_cheaply_computed_again_is_not_kept():
    def function(w, x):
        return jnp.sum(jax.nn.gelu(x @ w) ** 2)

    w, x, _ = arguments()
    ours = jax.jit(jax.value_and_grad(stitch.jax.jit(function, **OURS)))
    close(ours(w, x), jax.value_and_grad(function)(w, x), 1e-4)
    first, second = (line for line in ours.lower(w, x).as_text().splitlines() if "@stitch_run" in line)
    # The derivative has what went into the activation, which is the product's result.
    assert first.rstrip().endswith("(tensor<8x32xf32>) -> tensor<f32>"), first
    assert second.rstrip().endswith("(tensor<8x32xf32>, tensor<f32>) -> tensor<8x32xf32>") or second.rstrip().endswith(
        "(tensor<f32>, tensor<8x32xf32>) -> tensor<8x32xf32>"
    ), second


def _some_function(seed: int):
    random = numpy.random.default_rng(seed)
    steps = [(int(random.integers(11)), random.integers(1 << 30, size=2)) for _ in range(30)]

    def function(*values):
        values = list(values)
        for kind, places in steps:
            a, b = (values[int(place) % len(values)] for place in places)
            values.append(
                (
                    lambda: (a @ b) * 0.1,
                    lambda: a + b,
                    lambda: jnp.tanh(a),
                    lambda: jnp.exp(-jnp.abs(b)) * a,
                    lambda: a.T,
                    lambda: a.reshape(2, 18).T.reshape(6, 6),
                    lambda: a - a.mean(-1, keepdims=True),
                    lambda: jnp.broadcast_to(b.sum(0), (6, 6)),
                    lambda: jnp.where(jnp.arange(6)[:, None] >= jnp.arange(6), a, -1.0),
                    lambda: jnp.concatenate([a[:2], b[2:]]),
                    lambda: jax.nn.softmax(a),
                )[kind]()
            )
        return sum(jnp.sum(jnp.sin(value)) for value in values[-4:])

    return jax.value_and_grad(function, argnums=(0, 1, 2))


def test_a_partition_computes_the_same():
    """Random functions, whose pieces are evaluated where a call would be."""
    piece_p = core.Primitive("piece")
    piece_p.multiple_results = True
    piece_p.def_impl(lambda *values, jaxpr: core.jaxpr_as_fun(jaxpr)(*values))
    calls = again = 0
    for seed in range(12):
        function = _some_function(seed)
        values = [jnp.asarray(numpy.random.default_rng(seed).standard_normal((6, 6)), "float32") for _ in range(3)]
        flat = _jaxprs.flat(jax.make_jaxpr(function)(*values), custom=True)
        products = {i for i, eqn in enumerate(flat.jaxpr.eqns) if eqn.primitive.name == "dot_general"}
        graph = _partition.Graph(flat.jaxpr, products)
        pieces = _partition.pieces_of(graph, _partition.groups_of(graph))
        inside = [eqn.primitive.name for piece in pieces for eqn in piece.jaxpr.jaxpr.eqns]
        assert "dot_general" not in inside
        called = [piece.called(piece_p, jaxpr=piece.jaxpr) for piece in pieces]
        split = _partition.joined(flat, graph, pieces, called, {})
        close(core.jaxpr_as_fun(split)(*values), jax.tree.leaves(function(*values)), 1e-4)
        calls += len(pieces)
        again += sum(len(piece.group.again) for piece in pieces)
    assert calls > 24 and again > 12, (calls, again)


def test_weights_are_converted_where_they_are_read():
    def function(x, weights):
        for w in [w.astype("bfloat16") for w in weights]:
            x = jnp.tanh(x @ w) * 2
        return x

    x, weights = jnp.ones((4, 16), "bfloat16"), [jnp.eye(16) * (i + 1) for i in range(3)]
    closed = jax.make_jaxpr(function)(x, weights)
    flat = _jaxprs.flat(closed, custom=True)
    products = {i for i, eqn in enumerate(flat.jaxpr.eqns) if eqn.primitive.name == "dot_general"}
    groups = _partition.groups_of(_partition.Graph(flat.jaxpr, products))
    names = [[flat.jaxpr.eqns[i].primitive.name for i in group] for group in groups]
    assert [group.count("convert_element_type") for group in names] == [1, 1, 1, 0], names
    close(stitch.jax.jit(function, **OURS)(x, weights), function(x, weights), 2e-2)


def test_what_could_be_freed_does_not_wait_long():
    """Gradients of biases lead nowhere, and the activations that they are sums of would be held for the last of them."""

    def function(x, w):
        sums = []
        for _ in range(16):
            x = x @ w
            sums.append(x.sum(0))
            x = x @ w
        return x, sums

    x, w = jnp.ones((64, 16)), jnp.eye(16)
    closed = jax.make_jaxpr(function)(x, w)
    graph = _partition.Graph(closed.jaxpr, {i for i, e in enumerate(closed.jaxpr.eqns) if e.primitive.name == "dot_general"})
    groups = _partition.groups_of(graph)
    assert len(groups) == 16 and all(len(group) == 1 for group in groups), groups


def test_integers_beside_what_is_derived():
    def picked(w, places, x):
        y = (x @ w)[places]
        return jnp.sum(y * y), (jnp.argmax(y, -1), y.shape[0])

    (w, x, _), places = arguments(), jnp.array([3, 1, 1])
    ours = stitch.jax.jit(picked, **OURS)
    theirs = jax.jit(picked)
    close(jax.value_and_grad(ours, has_aux=True)(w, places, x), jax.value_and_grad(theirs, has_aux=True)(w, places, x))
    primals, tangents = (w, places, x), (w, numpy.zeros(3, jax.dtypes.float0), x)
    close(jax.jvp(ours, primals, tangents, has_aux=True), jax.jvp(theirs, primals, tangents, has_aux=True))
    assert stitch.jax.report()["fell_back"] == []


def test_scan_around_it():
    def run(step):
        def body(state, x):
            state = step(state, x)
            return state, state.sum()

        return jax.jit(lambda s, xs: jax.lax.scan(body, s, xs))

    def step(state, x):
        return jnp.tanh(state * 0.5 + x)

    ours, state = stitch.jax.jit(step, **OURS), jnp.ones((4, 8))
    xs = jnp.asarray(numpy.random.default_rng(5).standard_normal((5, 4, 8), "float32"))
    close(run(ours)(state, xs), run(step)(state, xs))
    assert stitch.jax.report()["runs"] == 5
    close(jax.grad(lambda s: run(ours)(s, xs)[1].sum())(state), jax.grad(lambda s: run(step)(s, xs)[1].sum())(state))


def test_loops_with_products_inside_are_xlas_with_calls_inside():
    def stack(x, layers):
        def body(x, weights):
            return layer(x, weights), x.mean()

        return jax.lax.scan(body, x, layers)

    x, weights = layer_arguments()
    layers = [jnp.stack([w, w * 0.5, -w]) for w in weights]
    ours = stitch.jax.jit(stack, **OURS)
    close(ours(x, layers), stack(x, layers), 1e-4)
    report = stitch.jax.report()
    assert report["runs"] == 3 * report["calls"] and 6 <= report["calls"] <= 7, report
    text = ours.lower(x, layers).as_text()
    assert "stablehlo.while" in text and calls_of(text) == report["calls"]

    def total(f):
        return jax.jit(jax.grad(lambda layers: f(x, layers)[0].sum()))

    close(total(ours)(layers), total(stack)(layers), 1e-3)
    assert stitch.jax.report()["fell_back"] == []


def test_branches_and_unbounded_loops_with_products_inside():
    def function(w, x):
        count, y = jax.lax.while_loop(
            lambda state: jnp.abs(state[1]).sum() > 1, lambda state: (state[0] + 1, jnp.tanh(state[1] @ w) * 0.1), (0, x)
        )
        return count, jax.lax.cond(y.sum() > 0, lambda v: jnp.tanh(v @ w) * 2, lambda v: jax.nn.softmax(v), x)

    w, x, _ = arguments()
    w = w[:, :16]
    close(stitch.jax.jit(function, **OURS)(w, x), function(w, x))
    report = stitch.jax.report()
    assert report["operators_library"] == 2 and report["fell_back"] == [], report


def test_loops_without_products_are_steps_of_a_program():
    def function(x):
        return jax.lax.scan(lambda c, _: (jnp.tanh(c) * 1.5, None), x, None, length=4)[0] * 2

    x = arguments()[1]
    close(stitch.jax.jit(function, **OURS)(x), function(x))
    assert stitch.jax.report()["runs"] == stitch.jax.report()["calls"] == 1


def test_what_is_to_be_computed_twice_is():
    def block(w, x, g):
        return jnp.sum(jax.checkpoint(lambda x: norm(x @ w, g))(x) ** 2)

    ours = jax.jit(stitch.jax.jit(jax.grad(block), **OURS))
    close(ours(*arguments()), jax.grad(block)(*arguments()), 1e-4)
    assert "optimization_barrier" in ours.lower(*arguments()).as_text()
    assert stitch.jax.report()["fell_back"] == []


def test_constants_inside_of_loops_branches_and_checkpoints():
    table = numpy.random.default_rng(7).standard_normal((16, 16)).astype("float32")
    inner = jax.jit(lambda c: jnp.tanh(c) * table[: c.shape[0]] + table[1])

    def function(w, x):
        y = jax.checkpoint(lambda x: inner(x @ w))(x)
        y, _ = jax.lax.scan(lambda c, _: (inner(c @ w), None), y, None, length=2)
        return jax.lax.cond(y.sum() > 0, lambda y: inner(y @ w), lambda y: y * 2, y).sum()

    w, x, _ = arguments()
    w = w[:, :16] / 4
    close(stitch.jax.jit(jax.grad(function), **OURS)(w, x), jax.grad(function)(w, x), 1e-4)


def test_references_stay_xlas_in_their_order():
    def function(w, x):
        reference = jax.new_ref(jnp.tanh(x @ w) * 2)
        before = reference[...]
        reference[0] = jnp.ones(w.shape[1])
        return jax.nn.softmax(reference[...]) * before

    w, x, _ = arguments()
    close(stitch.jax.jit(function, device="emulated", improve=False, deadline_ms=600_000)(w, x), function(w, x))
    report = stitch.jax.report()
    assert report["runs"] == 2 and all("effects" in entry["reason"] for entry in report["fell_back"]), report


def test_a_function_of_several_devices():
    code = """
import jax, jax.numpy as jnp, numpy, stitch.jax
mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
spec = jax.sharding.PartitionSpec

def function(w, x):
    return jnp.tanh(jax.nn.softmax(x @ w) * 2)

def loss(f):
    return lambda w, x: jax.lax.psum((f(w, x) ** 2).sum(), "d") * 0.5

w, x = (jnp.asarray(numpy.random.default_rng(3).standard_normal(shape), "float32") for shape in ((16, 8), (8, 16)))
options = {"device": "emulated", "fallback": "error", "improve": False, "deadline_ms": 600_000}
for inner, check in ((False, True), (False, False), (True, True)):
    ours = stitch.jax.jit(loss(function), **options) if inner else loss(stitch.jax.jit(function, **options))
    specs = {"mesh": mesh, "in_specs": (spec(), spec("d")), "out_specs": spec(), "check_vma": check}
    got = jax.jit(jax.grad(jax.shard_map(ours, **specs)))(w, x)
    right = jax.grad(lambda w: (function(w, x) ** 2).sum() * 0.5)(w)
    numpy.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-5)
report = stitch.jax.report()
assert report["runs"] == 2 * report["calls"] >= 12 and report["fell_back"] == [], report
"""
    environment = dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=2")
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)


def test_keys_of_random_numbers():
    def noisy(key, x):
        key, one = jax.random.split(key)
        return key, x * jax.random.bernoulli(one, 0.5, x.shape)

    key, x = jax.random.key(7), jnp.ones((8, 32))
    ours, theirs = stitch.jax.jit(noisy, **OURS)(key, x), noisy(key, x)
    numpy.testing.assert_array_equal(jax.random.key_data(ours[0]), jax.random.key_data(theirs[0]))
    numpy.testing.assert_array_equal(ours[1], theirs[1])


def test_keys_that_pieces_share():
    def function(key, w, x):
        one, two = jax.random.split(key)
        y = jax.nn.relu(x @ w)
        y = jnp.where(jax.random.bernoulli(one, 0.7, y.shape), y / 0.7, 0) @ w.T
        return y * jax.random.normal(two, y.shape), jax.random.fold_in(two, 3)

    w, x, _ = arguments()
    for key in (jax.random.key(5), jax.random.PRNGKey(5)):
        ours, theirs = stitch.jax.jit(function, **OURS)(key, w, x), function(key, w, x)
        close(ours[0], theirs[0])
        keys = [jax.random.key_data(k) if k.dtype != "uint32" else k for k in (ours[1], theirs[1])]
        numpy.testing.assert_array_equal(*keys)
    report = stitch.jax.report()
    assert report["fell_back"] == [] and report["calls"] >= 4, report


def test_memory_may_be_bounded():
    def function(x):
        return jnp.tanh(x @ x) @ x

    x = jnp.ones((16, 16))
    bounded = {**OURS, "max_workspace_bytes": 64, "products": "library"}
    with pytest.raises(stitch.ConstraintError, match="max_workspace_bytes is 64"):
        stitch.jax.jit(function, **bounded)(x)
    close(stitch.jax.jit(function, **{**bounded, "fallback": "xla"})(x), function(x))
    assert "max_workspace_bytes is 64" in stitch.jax.report()["fell_back"][0]["reason"]
    close(stitch.jax.jit(function, **{**bounded, "max_workspace_bytes": 1 << 20})(x), function(x))
    assert stitch.jax.report()["calls"] == 1


@pytest.mark.parametrize(
    "options, constraints",
    [
        ({}, ""),
        ({"deterministic": True}, "deterministic"),
        ({"batch_invariant": True, "precision": "eager"}, "batch_invariant,eager_precision"),
    ],
)
def test_constraints_are_asked_for(options, constraints, monkeypatch):
    ask, asked = stitch._server.Shared.make_program, []

    def spied(*arguments, **settings):
        asked.append(settings["constraints"])
        return ask(*arguments, **settings)

    monkeypatch.setattr(stitch._server.Shared, "make_program", spied)
    x = jnp.linspace(-1, 1, 48).reshape(6, 8)
    close(stitch.jax.jit(lambda x: jnp.tanh(x) * 3.25, **OURS, **options)(x), jnp.tanh(x) * 3.25)
    assert asked == [constraints]


def test_a_chain_has_the_bits_of_operators_one_by_one_where_it_is_asked_for():
    def chain(x):
        return ((x * 1.1 + 0.3) * x - 0.7) * x

    x = jnp.asarray(numpy.random.default_rng(7).standard_normal((32, 64)), "bfloat16")
    eager, bits = chain(x), {}
    for precision in ("default", "eager"):
        ours = stitch.jax.jit(chain, precision=precision, **OURS)(x)
        bits[precision] = int((ours.view("uint16") != eager.view("uint16")).sum())
    assert bits["eager"] == 0 < bits["default"], bits


def test_a_row_has_the_same_bits_in_every_batch_where_it_is_asked_for():
    def rows(x):
        return norm(x, jnp.linspace(0.5, 1.5, x.shape[1]))

    x = jnp.asarray(numpy.random.default_rng(8).standard_normal((64, 1001)), "float32")
    for invariant in (False, True):
        ours = stitch.jax.jit(rows, batch_invariant=invariant, **OURS)
        assert bool((ours(x)[3] == ours(x[3:4])[0]).all()) == invariant


@pytest.mark.parametrize(
    "options, begun",
    [
        ({"effort": "none"}, set()),
        ({"effort": "quick"}, {"tune-fragment"}),
        ({"effort": "quick", "budget_seconds": 60}, {"tune-model"}),
        ({"effort": "full", "budget_seconds": 1}, {"tune-model"}),
        ({"effort": "full", "improve": False}, set()),
    ],
)
def test_effort_and_budget_are_the_servers(options, begun, folder):
    stitch.connect()
    settled(folder)
    before = {job["id"] for job in jobs_of(folder)}
    scale = 5.5 + len(str(options)) / 64 + options.get("budget_seconds", 0)  # what no other test asks for
    settings = {"device": "emulated", "fallback": "error", "deadline_ms": 600_000, **options}
    x = jnp.linspace(-1, 1, 40)
    close(stitch.jax.jit(lambda x: jnp.sin(x * scale), **settings)(x), jnp.sin(x * scale), 1e-4)
    settled(folder)
    jobs = [job for job in jobs_of(folder) if job["id"] not in before and job["kind"] != "prune"]
    assert {job["kind"] for job in jobs} == begun, jobs
    assert {job["state"] for job in jobs} <= {"done", "cancelled"}, jobs


def test_donated_arguments_are_given_away():
    @stitch.jax.jit(donate_argnums=(0,), **OURS)
    def update(state, x):
        return state + x * 0.5

    state = jnp.ones((16, 64)) + 0
    result = update(state, jnp.ones((16, 64)))
    numpy.testing.assert_array_equal(result, numpy.full((16, 64), 1.5))
    assert state.is_deleted()


@pytest.mark.parametrize(
    "options",
    [{"donate_argnums": 1}, {"donate_argnums": (0, 1)}, {"donate_argnames": "state"},
     {"donate_argnums": (1, 2), "static_argnums": 0}],
)  # fmt: skip
def test_donated_arguments_are_updated_in_place(options):
    @stitch.jax.jit(**options, **OURS)
    def step(scale, state, x=None):
        """Every row of the new state is of all rows of the old one."""
        rows = state["w"] * scale - jnp.mean(state["w"], 0)
        return jnp.sum(rows), {"w": rows[::-1], "n": state["n"] + 1}

    before = numpy.random.default_rng(3).standard_normal((32, 24), "float32")
    state = {"w": jnp.asarray(before), "n": jnp.zeros((), "int32") + 0}
    # No memory for a result that is copied to the argument's afterwards.
    needs = step.lower(2.0, state).compile().memory_analysis()
    assert needs.temp_size_in_bytes < before.nbytes <= needs.alias_size_in_bytes, needs
    for turn in range(2):
        place = state["w"].unsafe_buffer_pointer()
        old = state
        total, state = step(2.0, state)
        rows = before * 2 - before.mean(0)
        before = rows[::-1]
        close(state["w"], jnp.asarray(before))
        close(total, jnp.asarray(rows.sum()), 1e-3)
        assert old["w"].is_deleted() and state["w"].unsafe_buffer_pointer() == place
        assert int(state["n"]) == turn + 1
    report = stitch.jax.report()
    assert report["calls"] >= 1 and report["runs"] == 2 and report["fell_back"] == [], report


def test_what_is_read_later_is_not_overwritten():
    update = stitch.jax.jit(lambda state: state * 2 + 1, donate_argnums=0, **OURS)
    x = jnp.arange(96.0).reshape(8, 12)
    close(jax.jit(lambda x: (update(x), x))(x), (x * 2 + 1, x))
    close(jax.jit(jax.grad(lambda x: jnp.sum(update(x) ** 2)))(x), (x * 2 + 1) * 4)
    close(jax.jit(jax.vmap(update))(x), x * 2 + 1)
    scanned = jax.jit(lambda x: jax.lax.scan(lambda c, _: (update(c), c), x, None, length=3))
    close(scanned(x), (((x * 2 + 1) * 2 + 1) * 2 + 1, jnp.stack([x, x * 2 + 1, (x * 2 + 1) * 2 + 1])))
    assert not x.is_deleted()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "uint8", "bool"])
def test_types(dtype):
    def function(x):
        return (x == x[::-1], jnp.where(x > x.mean(), x, 0)) if dtype != "bool" else (x ^ x[::-1], ~x)

    x = jnp.asarray(numpy.random.default_rng(6).integers(0, 2 if dtype == "bool" else 90, (8, 24)), dtype)
    close(stitch.jax.jit(function, **OURS)(x), function(x))


@pytest.mark.parametrize("values", [1, 40, 1 << 20], ids=["equal", "duplicates", "distinct"])
def test_unique_is_ours(values):
    def distinct(x):
        options = {"size": 64, "fill_value": -1, "return_index": True, "return_inverse": True, "return_counts": True}
        return jnp.unique(x, **options)

    x = jnp.asarray(numpy.random.default_rng(9).integers(0, values, 1024), "int32")
    for ours, theirs in zip(stitch.jax.jit(distinct, **OURS)(x), distinct(x), strict=True):
        numpy.testing.assert_array_equal(ours, theirs)


def test_permutations_of_mixtures_of_experts_are_ours():
    def route(logits):
        """Of each token's best experts: weights, order by expert, the way back, tokens of each, where each begins."""
        weights, experts = jax.lax.top_k(jax.nn.softmax(logits, -1), 2)
        order = jnp.argsort(experts.reshape(-1))
        counts = jnp.bincount(experts.reshape(-1), length=logits.shape[1])
        return weights, order, jnp.argsort(order), counts, jnp.cumsum(counts) - counts

    logits = jnp.asarray(numpy.random.default_rng(10).standard_normal((512, 16)), "float32")
    ours, theirs = stitch.jax.jit(route, **OURS)(logits), route(logits)
    close(ours[0], theirs[0])
    for one, other in zip(ours[1:], theirs[1:], strict=True):
        numpy.testing.assert_array_equal(one, other)


def test_what_is_not_supported_xla_runs_and_says_so_once(caplog):
    def ordered(x):
        return jnp.sort(x, axis=-1) * 2

    x = jnp.asarray(numpy.random.default_rng(8).standard_normal((2, 9000), "float32"))
    with caplog.at_level(logging.WARNING, "stitch.jax"):
        for shape in ((2, 9000), (1, 2, 9000)):
            numpy.testing.assert_array_equal(
                stitch.jax.jit(ordered, device="emulated")(x.reshape(shape)), ordered(x.reshape(shape))
            )
    assert len([record for record in caplog.records if "sort" in record.getMessage()]) == 1
    report = stitch.jax.report()
    (entry,) = report["fell_back"]
    assert entry["count"] == 2 and "sort" in entry["reason"] and entry["function"] == "ordered"
    # The rest of the function is ours all the same.
    assert report["runs"] == 2 and report["operators"] == 4 and report["operators_ours"] == 2, report
    with pytest.raises(stitch.Unsupported, match="sort"):
        stitch.jax.jit(ordered, **OURS)(x)


def test_only_what_has_no_kernel_is_xlas(caplog):
    def function(x, w):
        def body(c, _):
            c = jnp.abs(jnp.fft.ifft(jnp.fft.fft(jnp.tanh(c) * 2)))
            return c, None

        y = jax.lax.scan(body, jax.nn.softmax(x @ w), None, length=2)[0]
        return jnp.linalg.cholesky(y.T @ y + jnp.eye(y.shape[-1])) * 2 + 1

    w, x, _ = arguments()
    with caplog.at_level(logging.WARNING, "stitch.jax"):
        close(stitch.jax.jit(function, device="emulated", improve=False, deadline_ms=600_000)(x, w), function(x, w), 1e-4)
    report = stitch.jax.report()
    assert report["calls"] >= 4 and report["runs"] == report["calls"] + 1, report  # one of them inside of the loop
    kept = {entry["reason"].split(":")[0] for entry in report["fell_back"]}
    assert {"fft", "cholesky"} <= kept and not kept & {"scan", "tanh", "exp", "mul"}, report
    assert len(caplog.records) == len(report["fell_back"])


def test_effects_stay_with_xla_and_what_is_between_them_is_ours():
    def talks(say):
        def function(w, x):
            y = jnp.tanh(x @ w) * 2
            jax.debug.callback(say, y.sum())

            def body(c, _):
                c = jnp.sin(c) + jax.nn.relu(c)
                jax.debug.callback(say, c.sum())
                return c, c.mean()

            y, means = jax.lax.scan(body, y, None, length=2)
            return jax.nn.softmax(y).max() * means.sum()

        return function

    w, x, _ = arguments()
    ours, theirs = [], []
    function = stitch.jax.jit(talks(lambda value: ours.append(float(value))), device="emulated", deadline_ms=600_000)
    close(jax.value_and_grad(function)(w, x), jax.value_and_grad(talks(lambda v: theirs.append(float(v))))(w, x), 1e-4)
    jax.effects_barrier()
    numpy.testing.assert_allclose(sorted(ours), sorted(theirs), rtol=1e-4)
    report = stitch.jax.report()
    assert len(ours) == 3 and report["runs"] >= 8, report
    assert [entry["reason"].split(":")[0] for entry in report["fell_back"]] == ["debug_callback"]
    assert "effects" in report["fell_back"][0]["reason"]


def test_without_a_plan_xla_runs_that_piece(monkeypatch):
    w, x, g = arguments()
    options = {"device": "emulated", "improve": False, "deadline_ms": 600_000}
    known = stitch.jax.jit(lambda w, x: jnp.tanh(x @ w) * 3, **options)
    close(known(w, x), jnp.tanh(x @ w) * 3)
    monkeypatch.setattr(_programs, "_made", {})  # as in another process
    monkeypatch.setenv("STITCH_MODE", "replay")
    stitch.jax.reset()

    def function(w, x, g):
        return jnp.cos(norm((jnp.tanh(x @ w) * 3) @ w.T, g[:16]) ** 3)

    close(stitch.jax.jit(function, **options)(w, x, g), function(w, x, g), 1e-3)
    report = stitch.jax.report()
    assert report["calls"] == report["runs"] == 1, report  # what was stored
    (entry,) = report["fell_back"]
    assert entry["count"] == 1 and "stored" in entry["reason"], entry
    assert 0 < report["operators_ours"] < report["operators"] - report["operators_library"], report


def test_symbolic_extents_stay_with_xla():
    ours = jax.jit(stitch.jax.jit(lambda x: jnp.tanh(x) * 2, device="emulated"))
    shape = jax.export.symbolic_shape("n, 8")
    exported = jax.export.export(ours)(jax.ShapeDtypeStruct(shape, "float32"))
    numpy.testing.assert_allclose(exported.call(numpy.ones((3, 8), "float32")), numpy.tanh(1) * 2, rtol=1e-6)
    assert "symbolic" in stitch.jax.report()["fell_back"][0]["reason"]


def test_without_a_device_or_a_server_xla_runs():
    numpy.testing.assert_array_equal(stitch.jax.jit(lambda x: x + 1)(jnp.ones(8)), numpy.full(8, 2.0))
    nobody = {"device": "emulated", "server": "unix:///nowhere/stitchd.sock"}
    numpy.testing.assert_array_equal(stitch.jax.jit(lambda x: x + 2, **nobody)(jnp.ones(8)), numpy.full(8, 3.0))
    close(stitch.jax.jit(layer, **nobody)(*layer_arguments()), layer(*layer_arguments()))
    first, second = stitch.jax.report()["fell_back"]
    assert "emulated" in first["reason"] and "stitchd.sock" in second["reason"]
    assert second["count"] == 2  # a function, however many pieces it has
    with pytest.raises(stitch.Unavailable):
        stitch.jax.jit(lambda x: x + 2, server="unix:///nowhere/stitchd.sock", **OURS)(jnp.ones(8))


def test_a_server_that_was_stopped_is_waited_for_once(own, monkeypatch):  # noqa: F811
    stitch.connect()
    (process,) = servers(own)
    stop(process)
    monkeypatch.setattr(stitch._server, "_MOST_PATIENCE_SECONDS", 0.6)
    x = jnp.linspace(-1, 1, 24)
    for scale in (6.5, 7.5):
        close(stitch.jax.jit(lambda x, by=scale: jnp.tanh(x * by), device="emulated")(x), jnp.tanh(x * scale))
    first, second = stitch.jax.report()["fell_back"]
    assert "does not answer" in first["reason"] and "did not answer a moment ago" in second["reason"]


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match=r"'ful' is none of none, quick, full \(did you mean 'full'\?\)"):
        stitch.jax.jit(loss, effort="ful")
    with pytest.raises(TypeError, match=r"'devise' \(did you mean 'device'\?\)"):
        stitch.jax.jit(loss, devise="emulated")
    with pytest.raises(ValueError, match=r"'emulate' is none of auto, emulated \(did you mean 'emulated'\?\)"):
        stitch.jax.jit(loss, device="emulate")
    with pytest.raises(ValueError, match=r"'xls' is none of xla, library, faster, ours \(did you mean 'xla'\?\)"):
        stitch.jax.jit(loss, products="xls")


def test_an_export_runs_in_a_fresh_process(tmp_path):
    ours = jax.jit(jax.value_and_grad(stitch.jax.jit(loss, **OURS)))
    exported = jax.export.export(
        ours, disabled_checks=[jax.export.DisabledSafetyCheck.custom_call(stitch.jax.CUSTOM_CALL)]
    )(*arguments())
    calls = calls_of(exported.mlir_module())
    assert calls == 2 and exported.mlir_module().count("stablehlo.dot_general") == 2
    (tmp_path / "step.bin").write_bytes(exported.serialize())
    numpy.savez(tmp_path / "arguments.npz", *[numpy.asarray(value) for value in arguments()])
    code = f"""
import jax, numpy, stitch.jax
step = jax.export.deserialize(bytearray(open({str(tmp_path / "step.bin")!r}, "rb").read()))
data = numpy.load({str(tmp_path / "arguments.npz")!r})
value, gradient = jax.block_until_ready(step.call(*[data[name] for name in data.files]))
report = stitch.jax.report()
assert report["runs"] == {calls} and report["programs"] == 0, report
numpy.savez({str(tmp_path / "results.npz")!r}, value, gradient)
"""
    environment = dict(os.environ, STITCH_SERVER="unix:///nowhere/stitchd.sock", JAX_PLATFORMS="cpu")
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)
    data = numpy.load(tmp_path / "results.npz")
    value, gradient = jax.value_and_grad(loss)(*arguments())
    numpy.testing.assert_allclose(data["arr_0"], value, rtol=1e-4)
    numpy.testing.assert_allclose(data["arr_1"], gradient, rtol=2e-4, atol=2e-4)


def test_a_flax_model_trains_as_without_us():
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    optax = pytest.importorskip("optax", reason="optax is not installed")

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(12, 24, rngs=rngs)
            self.norm = nnx.LayerNorm(24, rngs=rngs)
            self.last = nnx.Linear(24, 5, rngs=rngs)

        def __call__(self, x):
            return self.last(self.norm(nnx.gelu(self.first(x))))

    definition, parameters = nnx.split(Model(nnx.Rngs(0)), nnx.Param)
    optimizer = optax.adamw(1e-2)
    random = numpy.random.default_rng(9)
    x = jnp.asarray(random.standard_normal((16, 12), "float32"))
    labels = jnp.asarray(random.integers(0, 5, 16), "int32")

    def loss(parameters, x, labels):
        return optax.softmax_cross_entropy_with_integer_labels(nnx.merge(definition, parameters)(x), labels).mean()

    def update(gradients, state, parameters):
        changes, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, changes), state

    def train(loss, update):
        now, state, losses = parameters, optimizer.init(parameters), []
        for _ in range(3):
            value, gradients = jax.jit(jax.value_and_grad(loss))(now, x, labels)
            now, state = update(gradients, state, now)
            losses.append(value)
        return jnp.stack(losses), now

    close(train(stitch.jax.jit(loss, **OURS), stitch.jax.jit(update, **OURS)), train(loss, jax.jit(update)), 2e-4)
    assert stitch.jax.report()["fell_back"] == []
    stitch.jax.reset()

    def step(now, state, x, labels):
        """All of it in one, which updates its arguments."""
        value, gradients = jax.value_and_grad(loss)(now, x, labels)
        return (*update(gradients, state, now), value)

    def trained(step):
        now, state = jax.tree.map(jnp.copy, (parameters, optimizer.init(parameters)))
        losses = []
        for _ in range(3):
            before = now
            now, state, value = step(now, state, x, labels)
            losses.append(value)
        return jnp.stack(losses), now, before

    ours = stitch.jax.jit(step, donate_argnums=(0, 1), **OURS)
    got, right = trained(ours), trained(jax.jit(step))
    close(got[:2], right[:2], 2e-4)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(got[2]))
    report = stitch.jax.report()
    products = report["operators_library"]
    assert products == 5 and report["fell_back"] == [] and report["operators_ours"] == report["operators"] - products
    assert report["runs"] == 3 * report["calls"] and report["calls"] <= 4, report
