"""`stitch.jax.jit` beside plain JAX: values, derivatives, batches, loops, exports, and what XLA runs instead."""

import logging
import os
import subprocess
import sys

import numpy
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")

import jax.numpy as jnp  # noqa: E402

import stitch  # noqa: E402
from stitch import _native  # noqa: E402

if _native.xla_handler() is None:
    pytest.skip("the native module was built without XLA's headers", allow_module_level=True)

import stitch.jax  # noqa: E402

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
    jax.jit(jax.value_and_grad(stitch.jax.jit(loss, **OURS)))(*arguments())
    report = stitch.jax.report()
    # The forward pass with what the backward pass needs, and the backward pass.
    assert report["calls"] == 2 and report["runs"] == 2, report


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


def test_keys_of_random_numbers():
    def noisy(key, x):
        key, one = jax.random.split(key)
        return key, x * jax.random.bernoulli(one, 0.5, x.shape)

    key, x = jax.random.key(7), jnp.ones((8, 32))
    ours, theirs = stitch.jax.jit(noisy, **OURS)(key, x), noisy(key, x)
    numpy.testing.assert_array_equal(jax.random.key_data(ours[0]), jax.random.key_data(theirs[0]))
    numpy.testing.assert_array_equal(ours[1], theirs[1])


def test_memory_may_be_bounded():
    def function(x):
        return jnp.tanh(x @ x) @ x

    x = jnp.ones((16, 16))
    bounded = {**OURS, "max_workspace_bytes": 64}
    with pytest.raises(stitch.ConstraintError, match="max_workspace_bytes is 64"):
        stitch.jax.jit(function, **bounded)(x)
    close(stitch.jax.jit(function, **{**bounded, "fallback": "xla"})(x), function(x))
    assert "max_workspace_bytes is 64" in stitch.jax.report()["fell_back"][0]["reason"]
    close(stitch.jax.jit(function, **{**bounded, "max_workspace_bytes": 1 << 20})(x), function(x))
    assert stitch.jax.report()["calls"] == 1


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
    (entry,) = stitch.jax.report()["fell_back"]
    assert entry["count"] == 2 and "sort" in entry["reason"] and entry["function"] == "ordered"
    with pytest.raises(stitch.Unsupported, match="sort"):
        stitch.jax.jit(ordered, **OURS)(x)


def test_effects_stay_with_xla():
    seen = []

    def talks(x):
        jax.debug.callback(lambda value: seen.append(float(value)), x.sum())
        return x * 2

    numpy.testing.assert_array_equal(stitch.jax.jit(talks, device="emulated")(jnp.ones(4)), numpy.full(4, 2.0))
    jax.effects_barrier()
    assert seen == [4.0] and "effects" in stitch.jax.report()["fell_back"][0]["reason"]


def test_symbolic_extents_stay_with_xla():
    ours = jax.jit(stitch.jax.jit(lambda x: jnp.tanh(x) * 2, device="emulated"))
    shape = jax.export.symbolic_shape("n, 8")
    exported = jax.export.export(ours)(jax.ShapeDtypeStruct(shape, "float32"))
    numpy.testing.assert_allclose(exported.call(numpy.ones((3, 8), "float32")), numpy.tanh(1) * 2, rtol=1e-6)
    assert "symbolic" in stitch.jax.report()["fell_back"][0]["reason"]


def test_without_a_device_or_a_server_xla_runs():
    numpy.testing.assert_array_equal(stitch.jax.jit(lambda x: x + 1)(jnp.ones(8)), numpy.full(8, 2.0))
    nobody = stitch.jax.jit(lambda x: x + 2, device="emulated", server="unix:///nowhere/stitchd.sock")
    numpy.testing.assert_array_equal(nobody(jnp.ones(8)), numpy.full(8, 3.0))
    reasons = [entry["reason"] for entry in stitch.jax.report()["fell_back"]]
    assert len(reasons) == 2 and "emulated" in reasons[0] and "stitchd.sock" in reasons[1], reasons
    with pytest.raises(stitch.Unavailable):
        stitch.jax.jit(lambda x: x + 2, server="unix:///nowhere/stitchd.sock", **OURS)(jnp.ones(8))


def test_wrong_options_are_named():
    with pytest.raises(TypeError, match=r"'devise' \(did you mean 'device'\?\)"):
        stitch.jax.jit(loss, devise="emulated")
    with pytest.raises(ValueError, match=r"'emulate' is none of auto, emulated \(did you mean 'emulated'\?\)"):
        stitch.jax.jit(loss, device="emulate")


def test_an_export_runs_in_a_fresh_process(tmp_path):
    ours = jax.jit(jax.value_and_grad(stitch.jax.jit(loss, **OURS)))
    exported = jax.export.export(
        ours, disabled_checks=[jax.export.DisabledSafetyCheck.custom_call(stitch.jax.CUSTOM_CALL)]
    )(*arguments())
    (tmp_path / "step.bin").write_bytes(exported.serialize())
    numpy.savez(tmp_path / "arguments.npz", *[numpy.asarray(value) for value in arguments()])
    code = f"""
import jax, numpy, stitch.jax
step = jax.export.deserialize(bytearray(open({str(tmp_path / "step.bin")!r}, "rb").read()))
data = numpy.load({str(tmp_path / "arguments.npz")!r})
value, gradient = step.call(*[data[name] for name in data.files])
assert stitch.jax.report()["runs"] == 2 and stitch.jax.report()["programs"] == 0
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
