"""`stitch.onnx` beside onnxruntime: results, signatures, exceptions and configuration keys."""

import json
import pathlib
import warnings

import numpy
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from conftest import jobs_of, settled  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import stitch  # noqa: E402
import stitch.onnx  # noqa: E402

QUICK = [{"improve": "0", "deadline_ms": 600_000}]


def model(nodes, inputs, outputs, initializers=(), **fields):
    """Bytes of a model; inputs and outputs are (name, type, shape)."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        [numpy_helper.from_array(array, name) for name, array in initializers],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10, **fields)
    return made.SerializeToString()


def perceptron(batch="batch"):
    random = numpy.random.default_rng(1)
    return model(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Add", ["product", "b"], ["shifted"]),
            helper.make_node("Softmax", ["shifted"], ["y"]),
            helper.make_node("ReduceSum", ["shifted"], ["total"], keepdims=0),
        ],
        [("x", TensorProto.FLOAT, [batch, 32])],
        [("y", TensorProto.FLOAT, [batch, 24]), ("total", TensorProto.FLOAT, [])],
        [
            ("w", random.standard_normal((32, 24), "float32")),
            ("b", random.standard_normal(24, "float32")),
        ],
        producer_name="tests",
    )


def session(source, **options):
    return stitch.onnx.InferenceSession(source, provider_options=QUICK, **options)


def beside(source, feeds, tolerance=1e-5):
    """All outputs, ours and onnxruntime's."""
    ours = session(source).run(None, feeds)
    theirs = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, feeds)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        numpy.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def feeds(batch=8):
    return {"x": numpy.random.default_rng(batch).standard_normal((batch, 32), "float32")}


@pytest.fixture(scope="module")
def ours():
    return session(perceptron())


@pytest.fixture(scope="module")
def theirs():
    return onnxruntime.InferenceSession(perceptron(), providers=["CPUExecutionProvider"])


def test_results_are_onnxruntimes_for_every_extent(ours, theirs):
    for batch in (8, 3, 8):
        for one, other in zip(ours.run(None, feeds(batch)), theirs.run(None, feeds(batch)), strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            numpy.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert ours.info()["steps"]["library"] == 1 and ours.info()["fallbacks"] == []


def test_outputs_by_name(ours, theirs):
    (total,) = ours.run(["total"], feeds())
    numpy.testing.assert_allclose(total, theirs.run(["total"], feeds())[0], rtol=1e-5)
    assert [result.shape for result in ours.run(["total", "y"], feeds())] == [(), (8, 24)]
    assert len(ours.run([], feeds())) == 2


def test_what_the_model_is(ours, theirs):
    for one, other in zip(
        [*ours.get_inputs(), *ours.get_outputs()], [*theirs.get_inputs(), *theirs.get_outputs()], strict=True
    ):
        assert (one.name, one.type, one.shape) == (other.name, other.type, other.shape)
    assert ours.get_modelmeta().producer_name == theirs.get_modelmeta().producer_name == "tests"
    assert ours.get_modelmeta().graph_name == "graph"
    assert ours.get_providers() == ["StitchExecutionProvider"]


def wrong_uses(package, bad):
    """Misuses that both packages refuse; each is a function of a session."""
    x = numpy.ones((8, 32), "float32")
    return {
        "missing input": lambda s: s.run(None, {}),
        "unknown input": lambda s: s.run(None, {"x": x, "z": x}),
        "unknown output": lambda s: s.run(["q"], {"x": x}),
        "extent": lambda s: s.run(None, {"x": x[:, :5]}),
        "rank": lambda s: s.run(None, {"x": x[0]}),
        "type": lambda s: s.run(None, {"x": x.astype("float64")}),
        "no file": lambda s: package.InferenceSession("/no/such/model.onnx"),
        "no model": lambda s: package.InferenceSession(b"junk"),
        "no source": lambda s: package.InferenceSession(3),
        "unknown attribute": lambda s: setattr(package.SessionOptions(), "enable_memory_reuse", True),
        "no entry": lambda s: package.SessionOptions().get_session_config_entry("session.use_env_allocators"),
    }


@pytest.mark.parametrize("use", wrong_uses(stitch.onnx, None))
def test_misuse_is_the_exception_that_onnxruntime_has(use, ours, theirs):
    with pytest.raises(Exception) as mine:
        wrong_uses(stitch.onnx, None)[use](ours)
    with pytest.raises(Exception) as other:
        wrong_uses(onnxruntime, None)[use](theirs)
    assert type(mine.value).__name__ == type(other.value).__name__, mine.value


@pytest.mark.parametrize(
    "wrong, message",
    [
        (
            lambda: stitch.onnx.SessionOptions().add_session_config_entry("session.disable_prepack", "1"),
            "did you mean 'session.disable_prepacking'",
        ),
        (lambda: stitch.onnx.RunOptions().add_run_config_entry("gpu_graph", "1"), "did you mean 'gpu_graph_id'"),
        (
            lambda: session(perceptron(), providers=[("StitchExecutionProvider", {"deadline": 5})]),
            "did you mean 'deadline_ms'",
        ),
        (lambda: stitch.onnx.InferenceSession(perceptron(), provider_options=[{"device": "gpu"}]), "'gpu' is neither"),
    ],
)
def test_unknown_keys_are_refused_with_the_nearest(wrong, message):
    with pytest.raises(stitch.onnx.InvalidArgument, match=message):
        wrong()


def test_an_unknown_provider_is_left_out_with_a_warning():
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not in available"):
        made = stitch.onnx.InferenceSession(
            perceptron(), providers=["CUDAExecutionProvider", ("StitchExecutionProvider", {"improve": False})]
        )
    assert made.get_providers() == ["StitchExecutionProvider"]


def test_run_options_and_profiles(tmp_path):
    options = stitch.onnx.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    options.add_free_dimension_override_by_name("batch", 8)
    made = session(perceptron(), sess_options=options)
    assert made.info() is not None, "all extents are known: the program is made with the session"
    made.run(None, feeds())
    end = stitch.onnx.RunOptions()
    end.terminate = True
    with pytest.raises(stitch.onnx.Fail, match="terminate flag"):
        made.run(None, feeds(), end)
    (event,) = json.loads(pathlib.Path(made.end_profiling()).read_text())
    assert event["name"] == "model_run" and event["dur"] > 0


@pytest.mark.parametrize(
    "options, deterministic, constraints",
    [
        ({}, False, ""),
        ({}, True, "deterministic"),
        ({"batch_invariant": "1", "precision": "eager"}, False, "batch_invariant,eager_precision"),
    ],
)
def test_constraints_are_asked_for(options, deterministic, constraints, theirs, monkeypatch):
    ask, asked = stitch._server.Shared.make_program, []

    def spied(*arguments, **settings):
        asked.append(settings["constraints"])
        return ask(*arguments, **settings)

    monkeypatch.setattr(stitch._server.Shared, "make_program", spied)
    chosen = stitch.onnx.SessionOptions()
    chosen.use_deterministic_compute = deterministic
    made = stitch.onnx.InferenceSession(perceptron(), chosen, provider_options=[{**QUICK[0], **options}])
    for one, other in zip(made.run(None, feeds()), theirs.run(None, feeds()), strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert asked == [constraints]


def test_effort_and_budget_are_the_servers(folder):
    stitch.connect()
    settled(folder)
    before = {job["id"] for job in jobs_of(folder)}
    effort = {"effort": "full", "budget_seconds": "1", "improve": "1"}
    stitch.onnx.InferenceSession(perceptron(11), provider_options=[{**QUICK[0], **effort}])
    settled(folder)
    jobs = [job for job in jobs_of(folder) if job["id"] not in before and job["kind"] != "prune"]
    assert [job["kind"] for job in jobs] == ["tune-model"] and jobs[0]["state"] in ("done", "cancelled"), jobs
    with pytest.raises(stitch.onnx.InvalidArgument, match="'ful' is none of none, quick, full .did you mean 'full'"):
        stitch.onnx.InferenceSession(perceptron(11), provider_options=[{"effort": "ful"}])


def test_bindings_and_values(ours, theirs):
    binding = ours.io_binding()
    binding.bind_cpu_input("x", feeds()["x"])
    into = stitch.onnx.OrtValue.ortvalue_from_shape_and_type([8, 24], "float32")
    binding.bind_ortvalue_output("y", into)
    binding.bind_output("total")
    ours.run_with_iobinding(binding)
    expected = theirs.run(None, feeds())
    numpy.testing.assert_allclose(into.numpy(), expected[0], rtol=1e-5, atol=1e-6)
    numpy.testing.assert_allclose(binding.copy_outputs_to_cpu()[1], expected[1], rtol=1e-5)
    (value,) = ours.run_with_ort_values(["y"], {"x": stitch.onnx.OrtValue.ortvalue_from_numpy(feeds()["x"])})
    assert value.data_type() == "tensor(float)" and value.shape() == [8, 24]


def test_weights_in_a_file_beside_the_model(tmp_path):
    made = onnx.load_model_from_string(perceptron(4))
    onnx.save_model(made, tmp_path / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    path = str(tmp_path / "model.onnx")
    beside(path, feeds(4))
    with pytest.raises(stitch.onnx.InvalidArgument, match="'w' is in the file 'weights.bin'"):
        session((tmp_path / "model.onnx").read_bytes())
    (tmp_path / "weights.bin").write_bytes((tmp_path / "weights.bin").read_bytes()[:100])
    with pytest.raises(stitch.onnx.InvalidArgument, match="weights.bin has 100 of its 3072 bytes at 0"):
        session(path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(stitch.onnx.NoSuchFile, match="weights.bin"):
        session(path)


def test_weights_may_not_be_elsewhere(tmp_path):
    made = onnx.load_model_from_string(perceptron(4))
    onnx.save_model(made, tmp_path / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    foreign = onnx.load_model(tmp_path / "model.onnx", load_external_data=False)
    for tensor in foreign.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../weights.bin"
    (tmp_path / "model.onnx").write_bytes(foreign.SerializeToString())
    with pytest.raises(stitch.onnx.InvalidArgument, match="not beside the model"):
        session(tmp_path / "model.onnx")


def test_initializers_may_be_given():
    options = stitch.onnx.SessionOptions()
    options.add_initializer("w", stitch.onnx.OrtValue.ortvalue_from_numpy(numpy.zeros((32, 24), "float32")))
    (y,) = session(perceptron(2), sess_options=options).run(["y"], feeds(2))
    numpy.testing.assert_allclose(y[0], y[1], rtol=1e-6)
    options.add_initializer("w", numpy.zeros((32, 25), "float32"))
    with pytest.raises(stitch.onnx.InvalidArgument, match="initializer 'w'"):
        session(perceptron(2), sess_options=options)


@pytest.mark.parametrize("external", [False, True], ids=["inside", "external"])
def test_initializers_that_were_given_are_onnxruntimes_where_it_runs_instead(external, tmp_path):
    """Nobody answers: what onnxruntime computes is of the contents that were given, not of the file's."""
    made = onnx.load_model_from_string(perceptron("batch"))
    beside_it = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0} if external else {}
    onnx.save_model(made, tmp_path / "model.onnx", **beside_it)
    if external:
        (tmp_path / "weights.bin").unlink()
    w, b = numpy.full((32, 24), 0.5, "float32"), numpy.linspace(-1, 1, 24, dtype="float32")
    options = stitch.onnx.SessionOptions()
    options.add_external_initializers(["w", "b"], [w, stitch.onnx.OrtValue.ortvalue_from_numpy(b)])
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    options.add_free_dimension_override_by_name("batch", 3)
    options.graph_optimization_level = stitch.onnx.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = [("StitchExecutionProvider", {"server": f"unix://{tmp_path}/nobody.sock"}), "CPUExecutionProvider"]
    made = stitch.onnx.InferenceSession(tmp_path / "model.onnx", options, providers=providers)
    assert made.get_providers() == ["CPUExecutionProvider"]
    x = feeds(3)["x"]
    (total,) = made.run(["total"], {"x": x})
    numpy.testing.assert_allclose(total, (x @ w + b).sum(), rtol=1e-5)
    theirs = options.for_onnxruntime(onnxruntime)
    assert theirs.get_session_config_entry("session.set_denormal_as_zero") == "1"
    assert theirs.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


def test_initializers_that_onnxruntime_folds_are_those_that_were_given(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    source = model(
        [helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT), helper.make_node("Add", ["x", "wide"], ["y"])],
        [("x", TensorProto.FLOAT, [4])],
        [("y", TensorProto.FLOAT, [4])],
        [("w", numpy.zeros(4, ml_dtypes.bfloat16))],
    )
    options = stitch.onnx.SessionOptions()
    options.add_initializer("w", numpy.array([1, 2, 3, 4], ml_dtypes.bfloat16))
    providers = [("StitchExecutionProvider", {"server": f"unix://{tmp_path}/nobody.sock"}), "CPUExecutionProvider"]
    made = stitch.onnx.InferenceSession(source, options, providers=providers)
    assert made.get_providers() == ["CPUExecutionProvider"]
    numpy.testing.assert_array_equal(made.run(None, {"x": numpy.ones(4, "float32")})[0], [2, 3, 4, 5])


def test_shapes_that_are_fed():
    source = model(
        [helper.make_node("Reshape", ["x", "shape"], ["wide"]), helper.make_node("Tanh", ["wide"], ["y"])],
        [("x", TensorProto.FLOAT, [4, 6]), ("shape", TensorProto.INT64, [2])],
        [("y", TensorProto.FLOAT, None)],
    )
    made = session(source)
    x = numpy.random.default_rng(2).standard_normal((4, 6), "float32")
    for shape in ((2, 12), (3, -1)):
        (y,) = made.run(None, {"x": x, "shape": numpy.array(shape)})
        numpy.testing.assert_allclose(y, numpy.tanh(x).reshape(shape), rtol=1e-5)


def test_one_name_has_one_extent():
    source = model(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        [("a", TensorProto.FLOAT, ["n"]), ("b", TensorProto.FLOAT, ["n"])],
        [("y", TensorProto.FLOAT, ["n"])],
    )
    with pytest.raises(stitch.onnx.InvalidArgument, match=r"for input: b (.|\n)* index: 0 Got: 3 Expected: 4"):
        session(source).run(None, {"a": numpy.ones(4, "float32"), "b": numpy.ones(3, "float32")})


def unsupported():
    return model(
        [helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=1)],
        [("x", TensorProto.FLOAT, [4, 9000])],
        [("values", TensorProto.FLOAT, [4, 3]), ("places", TensorProto.INT64, [4, 3])],
        [("k", numpy.array([3]))],
    )


def test_what_nobody_computes_is_named_or_onnxruntimes(caplog):
    with pytest.raises(stitch.onnx.NotImplemented, match="TopK"):
        session(unsupported())
    both = ["StitchExecutionProvider", "CPUExecutionProvider"]
    made = stitch.onnx.InferenceSession(unsupported(), providers=both)
    assert made.get_providers() == ["CPUExecutionProvider"] and "TopK" in caplog.text
    x = numpy.random.default_rng(3).standard_normal((4, 9000), "float32")
    values, places = made.run(None, {"x": x})
    numpy.testing.assert_array_equal(values, -numpy.sort(-x)[:, :3])
    assert made.run(["places"], {"x": x})[0].tolist() == places.tolist()
    strict = stitch.onnx.SessionOptions()
    strict.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    with pytest.raises(stitch.onnx.EPFail, match="TopK"):
        stitch.onnx.InferenceSession(unsupported(), strict, providers=both)


def test_an_operator_without_a_rule_is_named():
    source = model(
        [helper.make_node("Nope", ["x"], ["y"], name="first")],
        [("x", TensorProto.FLOAT, ["n", 4])],
        [("y", TensorProto.FLOAT, ["n", 4])],
    )
    with pytest.raises(stitch.onnx.NotImplemented, match="Nope"):
        session(source)


def test_no_server_is_an_engine_error():
    with pytest.raises(stitch.onnx.EngineError, match="stitchd.sock"):
        stitch.onnx.InferenceSession(perceptron(4), provider_options=[{"server": "unix:///nowhere/stitchd.sock"}])


@pytest.mark.parametrize("options", [{"server": "unix:///nowhere/stitchd.sock"}, {"max_workspace_bytes": "8"}])
@pytest.mark.parametrize("batch", ["batch", 8])
def test_without_a_program_onnxruntime_runs_for_good(batch, options, theirs, caplog):
    both = {"providers": ["StitchExecutionProvider", "CPUExecutionProvider"], "provider_options": [options, {}]}
    made = stitch.onnx.InferenceSession(perceptron(batch), **both)
    for _ in range(2):
        for one, other in zip(made.run(None, feeds()), theirs.run(None, feeds()), strict=True):
            numpy.testing.assert_array_equal(one, other)
    assert made.get_providers() == ["CPUExecutionProvider"] and made.info() is None
    assert len([r for r in caplog.records if "onnxruntime runs the model" in r.getMessage()]) <= 1
    strict = stitch.onnx.SessionOptions()
    strict.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    with pytest.raises(stitch.onnx.EPFail, match="stitchd.sock|max_workspace_bytes"):
        stitch.onnx.InferenceSession(perceptron(batch), strict, **both).run(None, feeds())


CASES = """
add_bcast argmax_keepdims_random averagepool_2d_pads batchnorm_epsilon cast_FLOAT_to_FLOAT16 clip_example
concat_3d_axis_1 conv_with_strides_padding convtranspose_pads cumsum_1d_exclusive depthtospace_example
einsum_sum elu expand_dim_changed flatten_axis1 gather_elements_1 gelu_tanh_1 gemm_all_attributes
globalaveragepool group_normalization_example hardsigmoid instancenorm_epsilon
layer_normalization_3d_axis1_epsilon logsoftmax_axis_2 lstm_defaults matmul_3d maxpool_2d_dilations
mean_example mod_mixed_sign_int64 onehot_without_axis pow_example prelu_broadcast
qlinearmatmul_2D_uint8_float32 reduce_log_sum_exp_keepdims_random resize_upsample_scales_nearest
scatter_elements_with_axis sce_mean slice_neg_steps softmax_axis_0 split_equal_parts_1d_opset18 tile
transpose_all_permutations_3 tril tril_zero where_example
""".split()


def array_of(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else numpy.asarray(value)


@pytest.fixture(scope="module")
def node_suite():
    """ONNX's own cases, which its package makes when it is asked."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in collect_testcases(None)}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_cases_of_the_node_suite(name, node_suite):
    case = node_suite.get(f"test_{name}")
    if case is None:
        pytest.skip(f"this version of onnx has no case {name}")
    made = session(case.model.SerializeToString())
    names = [port.name for port in made.get_inputs()]
    for inputs, outputs in case.data_sets:
        feeds = dict(zip(names, map(array_of, inputs), strict=True))
        for result, expected in zip(made.run(None, feeds), map(array_of, outputs), strict=True):
            assert result.dtype == expected.dtype and result.shape == expected.shape
            numpy.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-6)
