"""Graphs that one rank compiles for all (TORCH_COMPILE_ON_ONE_RANK, TORCH_DISTRIBUTED_COMPILE_ON_ONE_RANK)."""

import json

import pytest

torch = pytest.importorskip("torch")

if not hasattr(torch.compiler.config, "compile_on_one_rank"):
    pytest.skip("this PyTorch compiles on every rank", allow_module_level=True)

from conftest import address_of, counters  # noqa: E402
from test_torch import EMULATED, Block, run  # noqa: E402
from test_torch_artifacts import ahead, elsewhere  # noqa: E402, F401

import stitch.torch  # noqa: E402
from stitch.torch import _document, _runtime  # noqa: E402

FLAG = {"TORCH_DISTRIBUTED_COMPILE_ON_ONE_RANK": "1"}

_FIRST = """
assert torch.compiler.config.compile_on_one_rank
torch._dynamo.config.enable_aot_compile = True
run = torch.compile(model, backend="stitch", fullgraph=True, options={options!r})
ahead = (run.forward if hasattr(run, "forward") else run).aot_compile(((x,), {{}}))
torch.testing.assert_close(ahead(model, x), model(x), rtol=1e-5, atol=1e-5)
ahead.save_compiled_function(sys.argv[1])
print(stitch.torch.report()["kernel_calls"])
"""

_OTHER = """
with open(sys.argv[1], "rb") as file:
    ahead = torch.compiler.load_compiled_function(file)
torch.testing.assert_close(ahead(model, x), model(x), rtol=1e-5, atol=1e-5)
report = stitch.torch.report()
assert report["failed"] == report["fell_back"] == [] and report["eager_calls"] == 0, report
print(report["kernel_calls"])
"""


def test_what_one_rank_compiled_runs_on_others(ahead, tmp_path, folder):  # noqa: F811
    stitch.connect()
    script = _FIRST.format(options=EMULATED)
    calls = elsewhere(script, tmp_path / "model.pt", tmp_path=tmp_path, server=None, **FLAG)
    assert int(calls) >= 1
    for _ in range(2):  # without a server: nothing is compiled, predicted or asked for
        assert elsewhere(_OTHER, tmp_path / "model.pt", tmp_path=tmp_path, **FLAG) == calls


def test_ranks_that_compile_each_for_itself_share_the_daemons_plans(tmp_path, folder):
    """As without the flag: the first rank to ask has a fragment planned, the others get it."""
    stitch.connect()
    script = f"""
run = torch.compile(model, backend="stitch", options={ {**EMULATED, "effort": "none"}!r})
torch.testing.assert_close(run(x), model(x), rtol=1e-5, atol=1e-5)
assert stitch.torch.wait(120) and stitch.torch.report()["eager_calls"] == 0
print(stitch.torch.fingerprint())
"""
    first = elsewhere(script, tmp_path=tmp_path, server=None, **FLAG)
    before = counters(folder)["stitch_plans_predicted_total"]
    assert elsewhere(script, tmp_path=tmp_path, server=None, **FLAG) == first and len(first) == 64
    assert counters(folder)["stitch_plans_predicted_total"] == before
    assert address_of(folder)


def test_tensors_on_the_current_device_are_pytorchs():
    """What the graph has in the place of a device's number is asked when it runs, and no part of a plan."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    current = graph.call_function(torch.ops.coor.current_device.default)
    full = graph.call_function(torch.ops.aten.full.default, ([4, 8], 1.0), {"device": current})
    total = graph.call_function(torch.ops.aten.add.Tensor, (x, full))
    for node, value in ((x, torch.empty(4, 8)), (current, torch.device("cpu")), (full, torch.empty(4, 8)),
                        (total, torch.empty(4, 8))):  # fmt: skip
        node.meta["val"] = value
    cpu = torch.device("cpu")
    assert _document.refusal(full, cpu) == "a value of type device"
    assert _document.refusal(total, cpu) is None


def test_kernels_are_not_run_on_another_gpu_than_they_were_loaded_for(monkeypatch):
    """Guards do not look at the number of the GPU there, so that the piece does."""
    made = []
    begin = _runtime.Piece.__init__

    def remembering(self, *arguments, **more):
        begin(self, *arguments, **more)
        made.append(self)

    monkeypatch.setattr(_runtime.Piece, "__init__", remembering)
    x = torch.randn(4, 16)
    function = torch.compile(lambda x: torch.softmax(x * 41.5, -1), backend="stitch", options=EMULATED)
    right = torch.softmax(x * 41.5, -1)
    with torch.no_grad():
        torch.testing.assert_close(function(x), right)
        assert stitch.torch.wait(120)
        before = stitch.torch.report()
        made[-1]._roams, made[-1]._device = True, torch.device("cpu", 1)  # another one than the tensors'
        torch.testing.assert_close(function(x), right)
    after = stitch.torch.report()
    assert after["kernel_calls"] == before["kernel_calls"] and after["eager_calls"] == before["eager_calls"] + 1
    assert "are not run on another GPU" in json.dumps(after["failed"])
    assert run(lambda x: x * 2.5, x).shape == x.shape and isinstance(Block(), torch.nn.Module)
