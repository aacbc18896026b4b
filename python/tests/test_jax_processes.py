"""`stitch.jax` where JAX does more than compile a function for one device of this process: its persistent cache of
compilations, automatic sharding, and functions that are divided by rules of their own."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("jax", reason="jax is not installed")

from stitch import _native  # noqa: E402

if _native.xla_handler() is None:
    pytest.skip("the native module was built without XLA's headers", allow_module_level=True)

_BEGIN = f"""
import json, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import jax, jax.numpy as jnp, numpy, stitch.jax
from jax.sharding import NamedSharding, PartitionSpec as P
from test_jax import OURS, arguments, close, loss
"""

# Compiled ahead, so that no compilation but this one is counted.
_CACHED = _BEGIN + """
events = {}
jax.monitoring.register_event_listener(lambda name, **_: events.update({name: events.get(name, 0) + 1}))
options = {**OURS, **json.loads(sys.argv[1])}
step = jax.jit(jax.value_and_grad(stitch.jax.jit(loss, **options))).lower(*arguments())
events.clear()
compiled = step.compile()
told = {word: events.get(f"/jax/compilation_cache/cache_{word}", 0) for word in ("hits", "misses")}
close(compiled(*arguments()), jax.value_and_grad(loss)(*arguments()))
print(json.dumps({**told, **stitch.jax.report()}))
"""


def run(script, *words, **environment):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **environment}
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()[-1]


def test_jaxs_persistent_cache_has_executables_with_our_programs(tmp_path):
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }

    def compiled(more=cache, **options):
        return json.loads(run(_CACHED, json.dumps(options), **more))

    first = compiled()
    assert (first["hits"], first["misses"]) == (0, 1), first
    second = compiled()
    assert (second["hits"], second["misses"]) == (1, 0), second
    assert second["runs"] == first["runs"] > 0, "kernels of ours, in either process"
    # Whatever programs are other ones is another executable: nothing stale is run.
    other = compiled(precision="eager")
    assert (other["hits"], other["misses"]) == (0, 1) and other["runs"] > 0, other
    nobody = compiled({**cache, "STITCH_SERVER": f"unix://{tmp_path}/nobody.sock"}, fallback="xla", deadline_ms=100)
    assert (nobody["hits"], nobody["misses"]) == (0, 1) and nobody["runs"] == 0, nobody
    again = compiled()
    assert (again["hits"], again["misses"]) == (1, 0) and again["runs"] == first["runs"], again


_TWO = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
_MESH = _BEGIN + """
mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
rows, whole = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())
w, x, _ = arguments()
"""


def test_arguments_that_are_sharded_give_the_right_results():
    """What XLA's partitioner would have to divide it gathers: each device computes the whole."""
    script = _MESH + """
def function(w, x):
    return jnp.tanh(jax.nn.softmax(x @ w) * 2)

def square(f):
    return lambda w, x: (f(w, x) ** 2).sum()

ours = stitch.jax.jit(function, **OURS)
by_words = jax.jit(ours, in_shardings=(whole, rows), out_shardings=rows)(w, x)
assert by_words.sharding == rows
close(by_words, function(w, x))
assert stitch.jax.report()["runs"] == 2, stitch.jax.report()
close(ours(jax.device_put(w, whole), jax.device_put(x, rows)), function(w, x))
gradient = jax.jit(jax.grad(square(ours)), in_shardings=(whole, rows), out_shardings=whole)(w, x)
close(gradient, jax.grad(square(function))(w, x), 1e-4)
report = stitch.jax.report()
assert report["fell_back"] == [] and report["runs"] >= 8, report
print("right")
"""
    assert run(script, **_TWO) == "right"


def test_a_function_with_a_partitioning_of_its_own_is_part_of_a_call():
    """Where XLA would have divided it by that rule, it is computed whole, as the rest of the call."""
    script = _MESH + """
from jax.experimental.custom_partitioning import custom_partitioning

@custom_partitioning
def scaled(x):
    return x * 3 + 1

def partition(mesh, shapes, result):
    return mesh, lambda x: x * 3 + 1, shapes[0].sharding, (shapes[0].sharding,)

scaled.def_partition(partition=partition, infer_sharding_from_operands=lambda mesh, shapes, _: shapes[0].sharding,
                     sharding_rule="i j -> i j")

def function(x):
    return jnp.tanh(scaled(jax.nn.softmax(x)))

close(jax.jit(stitch.jax.jit(function, **OURS), in_shardings=(rows,), out_shardings=rows)(x), function(x))
report = stitch.jax.report()
assert report["calls"] == 1 and report["runs"] == 2 and report["fell_back"] == [], report
print("right")
"""
    assert run(script, **_TWO) == "right"
