"""Plans on NumPy arrays, errors, and the server that is started for the user."""

import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import numpy
import pytest
from conftest import servers

import stitch
from stitch import errors


def row_sums(rows=8, columns=96, dtype="f32"):
    return {
        "format": "stitch-graph",
        "version": 1,
        "name": "row sums",
        "nodes": [
            {"op": "parameter", "attributes": {"type": f"{dtype}[{rows},{columns}]"}},
            {"op": "reduce", "operands": [0], "attributes": {"kind": "sum", "dimensions": [1]}},
        ],
        "results": [1],
    }


def test_a_plan_runs_on_numpy_arrays():
    plan = stitch.plan(row_sums())
    x = numpy.random.default_rng(1).standard_normal((8, 96), "float32")
    numpy.testing.assert_allclose(plan.run(x), x.astype("float64").sum(1), rtol=1e-5, atol=1e-5)
    assert plan.info["launches"] == 1 and plan.info["label"] in ("predicted", "default", "measured", "near")
    assert 0 < plan.info["uncertainty_us"] < plan.info["predicted_us"]


def test_arrays_that_are_not_dense_or_not_aligned_are_copied():
    plan = stitch.plan(row_sums())
    wide = numpy.random.default_rng(2).standard_normal((96, 8), "float32")
    odd = numpy.zeros(8 * 96 + 1, "float32")[1:].reshape(8, 96)
    odd[...] = wide.T
    numpy.testing.assert_array_equal(plan.run(wide.T), plan.run(odd))
    numpy.testing.assert_allclose(plan.run(odd), wide.sum(0, dtype="float64"), rtol=1e-5, atol=1e-5)


def test_results_may_be_given():
    plan = stitch.plan(row_sums())
    out = numpy.empty(8, "float32")
    plan.run(numpy.ones((8, 96), "float32"), out=[out])
    numpy.testing.assert_array_equal(out, numpy.full(8, 96.0))


def test_threads_run_one_plan():
    plan = stitch.plan(row_sums())
    results = [None] * 4

    def run(i):
        results[i] = plan.run(numpy.full((8, 96), float(i), "float32"))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for i, result in enumerate(results):
        numpy.testing.assert_array_equal(result, numpy.full(8, 96.0 * i))


@pytest.mark.parametrize(
    "arrays, message",
    [
        ([numpy.ones((8, 95), "float32")], r"parameter 0: f32\[8,96\] is wanted, the array is 95 in dimension 1"),
        ([numpy.ones((8, 96), "float64")], "of another element type"),
        ([numpy.ones(768, "float32")], "of 1 dimensions"),
        ([], "the plan has 1 parameters, 0 arrays were given"),
    ],
)
def test_wrong_arrays_are_named(arrays, message):
    with pytest.raises(stitch.InvalidArgument, match=message):
        stitch.plan(row_sums()).run(*arrays)


@pytest.mark.parametrize(
    "source, kind, message",
    [
        ({"format": "other"}, stitch.CompatibilityError, "stitch-graph"),
        ("/no/such/model.onnx", stitch.InvalidArgument, "No such file"),
        ('{"format": ', stitch.ParseError, "byte"),
        (dict(row_sums(), results=[7]), stitch.InvalidArgument, "results"),
    ],
)
def test_wrong_sources_are_named(source, kind, message):
    with pytest.raises(kind, match=message) as error:
        stitch.plan(source)
    assert isinstance(error.value, stitch.Error)


def test_errors_have_the_c_interfaces_codes():
    header = pathlib.Path(__file__).parents[2] / "client" / "stitch.h"
    codes = {name.lower(): int(code) for name, code in re.findall(r"STITCH_([A-Z_]+) = (\d+)", header.read_text())}
    kinds = {error.kind for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.Error)}
    assert len(kinds) > 10 and kinds <= codes.keys()
    for kind in kinds | {"io", "cancelled", "compile"}:
        error = errors.of_kind(kind.replace("_", " "), "what is wrong")
        assert (error.kind, error.code) == (kind, codes[kind])
    with pytest.raises(stitch.InvalidArgument) as raised:
        stitch.plan(row_sums(), constraints="fast")
    assert raised.value.code == codes["invalid_argument"]


def test_a_fragment_tells_its_types():
    fragment = stitch.fragment(json.dumps(row_sums()))
    assert fragment.parameters == [("f32", [8, 96])] and fragment.results == [("f32", [8])]
    assert fragment.operators == 1 and "reduce" in str(fragment)
    assert stitch.fragment(fragment.to_json()).results == fragment.results


def test_constraints_make_another_plan():
    free = stitch.plan(row_sums(16, 192))
    fixed = stitch.plan(row_sums(16, 192), constraints="deterministic")
    assert fixed.info["fragment"] != free.info["fragment"], "a constraint is part of what a plan is for"
    x = numpy.random.default_rng(2).standard_normal((16, 192), "float32")
    assert fixed.run(x).tobytes() == fixed.run(x).tobytes()
    with pytest.raises(stitch.InvalidArgument, match="quick"):
        stitch.plan(row_sums(), constraints="quick")


def test_no_server_is_unavailable():
    with pytest.raises(stitch.Unavailable, match="nobody.sock"):
        stitch.plan(row_sums(), server="unix:///tmp/nobody.sock")
    with pytest.raises(stitch.InvalidArgument):
        stitch.connect("nonsense")


def test_processes_that_come_at_once_share_one_server(tmp_path):
    code = "import stitch; print(stitch.connect().server_version)"
    environment = dict(os.environ, XDG_RUNTIME_DIR=str(tmp_path), STITCH_CACHE_DIR=str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    command = [sys.executable, "-c", code]
    try:
        many = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        answers = {process.communicate(timeout=120)[0].strip() for process in many}
        assert answers == {stitch.__version__}
        assert len(servers(tmp_path)) == 1
    finally:
        for process in servers(tmp_path):
            os.kill(process, 15)


def test_why_names_what_differs():
    def scaled(rows):
        nodes = [
            {"op": "parameter", "attributes": {"type": f"f32[{rows},24]"}},
            {"op": "exp", "operands": [0]},
            {"op": "reduce", "operands": [1], "attributes": {"kind": "max", "dimensions": [1]}},
        ]
        return {"format": "stitch-graph", "version": 1, "name": "scaled", "nodes": nodes, "results": [2]}

    before = stitch.why(scaled(9))
    assert before["plan"] is None and before["closest"] is None and list(before["differs"]) == ["fragment"], before
    plan = stitch.plan(scaled(9), improve=False, deadline_ms=120_000)
    found = stitch.why(scaled(9))
    assert found["plan"] == plan.info["id"] and found["differs"] == {} and found["fragment"] == plan.info["fragment"]
    other = stitch.why(scaled(10))
    assert other["plan"] is None and other["closest"] == plan.info["id"], other
    assert other["differs"] == {"shape": ("f32[10,24]", "f32[9,24]")}, other
    assert stitch.why(scaled(9), constraints="deterministic")["plan"] is None
