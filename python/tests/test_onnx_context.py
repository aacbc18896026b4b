"""Compiled models (ep.context_enable): files of one EPContext node, which need neither server nor compiler."""

import numpy
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper  # noqa: E402
from test_onnx import QUICK, model, perceptron  # noqa: E402
from test_program import of_another_version  # noqa: E402

import stitch.onnx  # noqa: E402


def session(source, entries=(), extents=(), **options):
    chosen = stitch.onnx.SessionOptions()
    for key, value in dict(entries).items():
        chosen.add_session_config_entry(key, value)
    for name, extent in dict(extents).items():
        chosen.add_free_dimension_override_by_name(name, extent)
    return stitch.onnx.InferenceSession(source, chosen, provider_options=[{**QUICK[0], **options}])


@pytest.fixture
def no_server(monkeypatch, tmp_path):
    """From now on nobody answers."""
    return lambda: monkeypatch.setenv("STITCH_SERVER", f"unix://{tmp_path}/nobody.sock")


def written(folder, entries=(), source=None, extents=()):
    """A model's outputs for one batch, and the folder's files when it was compiled."""
    (folder / "model.onnx").write_bytes(source or perceptron(6))
    made = session(folder / "model.onnx", {"ep.context_enable": "1", **dict(entries)}, extents)
    x = numpy.random.default_rng(4).standard_normal((6, 32), "float32")
    return x, made.run(None, {"x": x}), sorted(path.name for path in folder.iterdir())


FORMS = {
    "beside": ({}, ["model.onnx", "model_ctx.onnx", "model_ctx_stitch.bin"]),
    "embedded": ({"ep.context_embed_mode": "1"}, ["model.onnx", "model_ctx.onnx"]),
    "initializers outside": (
        {"ep.context_model_external_initializers_file_name": "weights.bin"},
        ["model.onnx", "model_ctx.onnx", "model_ctx_stitch.bin", "weights.bin"],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_compiled_model_runs_without_a_server(form, tmp_path, no_server):
    entries, files = FORMS[form]
    folder = tmp_path / "models"
    folder.mkdir()
    x, expected, found = written(folder, entries)
    assert found == files
    no_server()
    (folder / "model.onnx").unlink()
    again = session(folder / "model_ctx.onnx")
    assert [(port.name, port.type, port.shape) for port in again.get_inputs()] == [("x", "tensor(float)", [6, 32])]
    assert [port.name for port in again.get_outputs()] == ["y", "total"]
    assert again.get_modelmeta().producer_name == "tests"
    for ours, right in zip(again.run(None, {"x": x}), expected, strict=True):
        numpy.testing.assert_array_equal(ours, right)
    with pytest.raises(stitch.onnx.InvalidArgument, match="Got: 5 Expected: 6"):
        again.run(None, {"x": x[:5]})


def test_the_file_is_as_onnxruntimes_providers_write_it(tmp_path):
    entries = {"ep.context_embed_mode": "1", "ep.context_node_name_prefix": "mine_"}
    written(tmp_path, entries, perceptron(), {"batch": 6})
    read = onnx.load(tmp_path / "model_ctx.onnx")
    (node,) = read.graph.node
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    assert (node.op_type, node.domain) == ("EPContext", "com.microsoft") and node.name.startswith("mine_")
    assert attributes["main_context"] == 1 and attributes["embed_mode"] == 1
    assert attributes["source"] == b"StitchExecutionProvider" and len(attributes["ep_cache_context"]) > 1000
    assert sorted(node.input) == ["b", "w", "x"] and list(node.output) == ["y", "total"]
    assert [d.dim_value for d in read.graph.input[0].type.tensor_type.shape.dim] == [6, 32]
    onnx.save(read, tmp_path / "saved_by_onnx.onnx")
    x = numpy.ones((6, 32), "float32")
    ours = session(tmp_path / "saved_by_onnx.onnx").run(["y"], {"x": x})[0]
    numpy.testing.assert_array_equal(ours, session(tmp_path / "model_ctx.onnx").run(["y"], {"x": x})[0])


def test_a_path_may_be_named_and_models_of_bytes_need_one(tmp_path):
    source, path = perceptron(6), tmp_path / "elsewhere.onnx"
    with pytest.raises(stitch.onnx.InvalidArgument, match="ep.context_file_path must say where"):
        session(source, {"ep.context_enable": "1"})
    session(source, {"ep.context_enable": "1", "ep.context_file_path": str(path), "ep.context_embed_mode": "1"})
    session(path.read_bytes()).run(None, {"x": numpy.ones((6, 32), "float32")})
    with pytest.raises(stitch.onnx.Fail, match="exist already"):
        session(source, {"ep.context_enable": "1", "ep.context_file_path": str(path)})
    with pytest.raises(stitch.onnx.InvalidArgument, match="was compiled already"):
        session(path, {"ep.context_enable": "1"})
    with pytest.raises(stitch.onnx.Fail, match="No such file"):
        session(source, {"ep.context_enable": "1", "ep.context_file_path": str(tmp_path / "nowhere" / "x.onnx")})


def test_what_cannot_be_compiled_says_why(tmp_path):
    where = {"ep.context_enable": "1", "ep.context_file_path": str(tmp_path / "x.onnx")}
    with pytest.raises(stitch.onnx.InvalidArgument, match=r"these are open: x\['batch', 32\].*add_free_dimension"):
        session(perceptron(), where)
    with pytest.raises(stitch.onnx.InvalidArgument, match="ep.context_enable is 0 or 1, not 'yes'"):
        session(perceptron(6), {"ep.context_enable": "yes"})
    with pytest.raises(stitch.onnx.InvalidArgument, match="no name of a file beside"):
        session(perceptron(6), {**where, "ep.context_model_external_initializers_file_name": "../weights"})
    assert not (tmp_path / "x.onnx").exists()


def context_node(**attributes):
    return model(
        [helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft", **attributes)],
        [("x", TensorProto.FLOAT, [6])], [("y", TensorProto.FLOAT, [6])],
    )  # fmt: skip


@pytest.mark.parametrize(
    "attributes, kind, message",
    [
        ({"source": "QNNExecutionProvider"}, "NotImplemented", "EPContext of 'QNN.*compiled by another provider"),
        ({"source": "StitchExecutionProvider", "ep_cache_context": "../x"}, "InvalidArgument", "not beside the model"),
        ({"source": "StitchExecutionProvider", "ep_cache_context": "x.bin"}, "NoSuchFile", "x.bin"),
        ({"source": "StitchExecutionProvider", "ep_cache_context": "text", "embed_mode": 1}, "OnnxError", "StitchError"),
    ],
)
def test_a_context_that_cannot_be_read_says_why(attributes, kind, message, tmp_path):
    (tmp_path / "x.onnx").write_bytes(context_node(**attributes))
    with pytest.raises(getattr(stitch.onnx, kind), match=message):
        session(tmp_path / "x.onnx")


def flipped(place: float):
    def change(data: bytes) -> bytes:
        wrong = bytearray(data)
        wrong[int(len(wrong) * place)] ^= 1
        return bytes(wrong)

    return change


REFUSED = {
    "stale": (of_another_version, "version 23 of the format; this Stitch reads 1 to 3"),
    "truncated": (lambda data: data[:-100], "CBOR"),
    "tampered with": (flipped(0.5), None),
    "tampered with in its last bytes": (lambda data: data[:-9] + b"w" + data[-8:], None),
    "foreign": (lambda data: b"PK\x03\x04" + data, "CBOR"),
    "empty": (lambda data: b"", None),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_compiled_model_that_must_not_run_is_refused_and_the_model_runs(what, tmp_path, no_server):
    """The model itself, by onnxruntime where no server answers."""
    x, expected, _ = written(tmp_path)
    change, said = REFUSED[what]
    program = tmp_path / "model_ctx_stitch.bin"
    program.write_bytes(change(program.read_bytes()))
    with pytest.raises(stitch.onnx.OnnxError, match=said) as refused:
        session(tmp_path / "model_ctx.onnx")
    assert str(refused.value)
    no_server()
    providers = [("StitchExecutionProvider", QUICK[0]), "CPUExecutionProvider"]
    theirs = stitch.onnx.InferenceSession(tmp_path / "model.onnx", providers=providers)
    for ours, right in zip(theirs.run(None, {"x": x}), expected, strict=True):
        numpy.testing.assert_allclose(ours, right, rtol=1e-5, atol=1e-5)


def test_memory_may_be_bounded():
    with pytest.raises(stitch.onnx.Fail, match="beside its inputs and results.*max_workspace_bytes is 8"):
        session(perceptron(6), max_workspace_bytes="8")
    with pytest.raises(stitch.onnx.InvalidArgument, match="'max_workspace_bytes': expected a number of bytes"):
        session(perceptron(6), max_workspace_bytes="few")


def test_provider_options_may_be_the_files(tmp_path, monkeypatch):
    monkeypatch.setenv("STITCH_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text("max_workspace_bytes = 9\n[onnx]\nprograms = 3\n")
    with pytest.raises(stitch.onnx.Fail, match="max_workspace_bytes is 9"):
        session(perceptron(6))
    (tmp_path / "config.toml").write_text("[onnx]\nprogram = 3\n")
    with pytest.raises(stitch.onnx.InvalidArgument, match="onnx has no option 'program' .did you mean 'programs'"):
        session(perceptron(6))
