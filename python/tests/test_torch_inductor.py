"""fallback="inductor": what is not ours, and pieces without a plan, as Inductor compiles them; eagerly where it fails."""

import logging
import os
import subprocess
import sys
import weakref

import pytest

torch = pytest.importorskip("torch")

from test_torch import EMULATED, FUNCTIONS, Block, Mlp, Pool, errors_of, fresh, run  # noqa: E402, F401
from test_torch_artifacts import ahead, elsewhere  # noqa: E402, F401
from test_torch_faults import result_of_child  # noqa: E402

from torch._higher_order_ops.effects import _EffectType  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import stitch.torch  # noqa: E402
from stitch.torch import _inductor, _partition, _runtime  # noqa: E402

INDUCTOR = {**EMULATED, "fallback": "inductor"}


@pytest.fixture
def alone(tmp_path):
    """Options with which pieces never have a plan."""
    return {**INDUCTOR, "server": f"unix://{tmp_path}/nobody.sock"}


def calls() -> list[int]:
    report = stitch.torch.report()
    assert {entry["kind"] for entry in report["failed"]} <= {"unavailable"}, report["failed"]
    return [report[name] for name in ("kernel_calls", "inductor_calls", "eager_calls")]


def test_what_is_not_ours_is_compiled_between_our_pieces():
    function = lambda x: torch.lgamma((x * 36.5).exp() + 2).sin().softmax(-1)  # noqa: E731
    x = -torch.rand(4, 6)
    torch.testing.assert_close(run(function, x, options=INDUCTOR), function(x))
    assert calls() == [2, 1, 0]
    assert [entry["op"] for entry in stitch.torch.report()["fell_back"]] == ["aten.lgamma.default"]


@pytest.mark.parametrize("device", ["emulated", "auto"])
def test_a_graph_without_ours_is_compiled_as_a_whole(device):
    function = lambda x: torch.lgamma(x) @ torch.special.erfcx(x)  # noqa: E731
    x = torch.rand(5, 5)
    torch.testing.assert_close(run(function, x, options={**INDUCTOR, "device": device}), function(x))
    assert stitch.torch.report()["inductor_calls"] == 1


def test_extents_are_given_behind_all_other_inputs():
    """Also where an operator stands before some of them, as some releases of PyTorch (2.11) take pieces out."""
    x = torch.rand(3, 5)
    graph = make_fx(lambda x, y: (x * 2).view(-1) + y, tracing_mode="symbolic")(x, torch.rand(15))
    modules, _ = _partition.split(graph, torch.device("cpu"))
    ((name, inside),) = modules.items()
    *_, last = inside.graph.find_nodes(op="placeholder")
    first = next(node for node in inside.graph.nodes if node.op == "call_function")
    first.append(last)
    _partition.give_extents(graph, modules)
    (call,) = graph.graph.find_nodes(op="call_module")
    for given, taken in zip(call.args, inside.graph.find_nodes(op="placeholder"), strict=True):
        assert str(given.meta["val"]) == str(taken.meta["val"])


def test_products_and_views_are_not_compiled():
    x = torch.rand(5, 5)
    torch.testing.assert_close(run(lambda x: (x @ x).t() @ x, x, options=INDUCTOR), (x @ x).t() @ x)
    assert calls() == [0, 0, 0]


@pytest.mark.parametrize("model, shape", [(Mlp, (4, 16)), (Block, (2, 5, 16)), (Pool, (2, 3, 8, 8))])
def test_pieces_without_a_plan_are_compiled_in_training(model, shape, alone):
    ours, eager = errors_of(model(), [torch.randn(shape)], alone)
    assert ours < 8 * eager + 1e-6
    kernels, inductor, eagerly = calls()
    assert kernels == eagerly == 0 and inductor >= 2


@pytest.mark.parametrize("name", ["a transposed result", "an expanded result", "an input mutated", "several results",
                                  "views of a result", "maxima of windows", "no elements", "a scalar"])  # fmt: skip
def test_pieces_without_a_plan_do_what_eager_does(name, alone):
    x = torch.randn(4, 6)
    ours, eager = x.clone(), x.clone()
    found, expected = run(FUNCTIONS[name], ours, options=alone), FUNCTIONS[name](eager)
    torch.testing.assert_close(ours, eager)
    torch.testing.assert_close(found, expected, check_stride=True)
    assert calls() == [0, 1, 0]


def test_pieces_are_compiled_until_their_plan_is_there():
    function = torch.compile(lambda x: (x * 37.5).tanh().sum(0), backend="stitch", options={**INDUCTOR, "deadline_ms": 0})
    x = torch.randn(3, 11)
    for _ in range(2):
        torch.testing.assert_close(function(x), (x * 37.5).tanh().sum(0))
        assert stitch.torch.wait(120)
    kernels, inductor, eagerly = calls()  # on a busy machine the plan may be there before the first call
    assert kernels >= 1 and kernels + inductor == 2 and eagerly == 0


class Gamma(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 24), torch.nn.Linear(24, 8)

    def forward(self, x):
        return torch.lgamma(self.second(torch.lgamma(self.first(x).sigmoid() + 1).softmax(-1)).exp() + 1)


def test_training_with_operators_that_are_not_ours():
    ours, eager = errors_of(Gamma(), [torch.randn(4, 16)], INDUCTOR)
    assert ours < 8 * eager + 1e-6
    kernels, inductor, eagerly = calls()
    assert kernels > 0 and inductor >= 3 and eagerly == 0
    assert {e["op"] for e in stitch.torch.report()["fell_back"]} == {"aten.lgamma.default", "aten.digamma.default"}


def test_batches_of_gradients_and_tangents_are_eagers(alone):
    function = torch.compile(lambda x: torch.lgamma((x * 49.5).sin() + 2), backend="stitch", options=alone)
    x, of = torch.rand(5, requires_grad=True), torch.randn(3, 5)
    y = function(x)
    singles = [torch.autograd.grad(y, x, one, retain_graph=True)[0] for one in of]
    (batched,) = torch.autograd.grad(y, x, of, is_grads_batched=True)
    torch.testing.assert_close(batched, torch.stack(singles))
    with torch.autograd.forward_ad.dual_level(), torch.no_grad():
        function(x)
        dual = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones(5))
        tangent = torch.autograd.forward_ad.unpack_dual(function(dual)).tangent
    torch.testing.assert_close(tangent, torch.autograd.grad(function(x).sum(), x)[0])


def test_random_numbers_are_eagers(alone):
    function = lambda x: torch.nn.functional.dropout(torch.lgamma(torch.nn.functional.dropout(x, 0.5) + 1), 0.3)  # noqa: E731
    x = torch.rand(64)
    for options in (INDUCTOR, alone, {"fallback": "inductor"}):
        torch._dynamo.reset()
        torch.manual_seed(3)
        ours = run(function, x, options={**options, "random": "eager"})
        torch.manual_seed(3)
        torch.testing.assert_close(ours, function(x))
    assert stitch.torch.report()["inductor_calls"] >= 3


@pytest.mark.parametrize("served", [True, False])
def test_extents_that_change(served, alone):
    function = lambda x: torch.lgamma((x * 38.5).softmax(-1)[..., 1:] + 1).reshape(-1).tanh()  # noqa: E731
    compiled = torch.compile(function, backend="stitch", dynamic=True, options=INDUCTOR if served else alone)
    for n in (3, 5, 8, 17):
        x = torch.rand(n, 2 * n)
        torch.testing.assert_close(compiled(x), function(x))
    kernels, inductor, eagerly = calls()
    assert eagerly == 0 and inductor >= 4 and (kernels > 0) == served
    assert stitch.torch.report()["graphs"] == 1


def test_gradients_of_extents_that_change(alone):
    model = Block()
    compiled = torch.compile(model, backend="stitch", dynamic=True, options=alone)
    for n in (4, 6, 9):
        gradients = []
        for function in (compiled, model):
            model.zero_grad()
            torch.manual_seed(n)
            function(torch.randn(2, n, 16)).square().sum().backward()
            gradients.append([p.grad.clone() for p in model.parameters()])
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)
    kernels, inductor, eagerly = calls()
    assert kernels == eagerly == 0 and inductor > 0


@pytest.mark.parametrize("device", ["emulated", "auto"])
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_numbers_of_elements_that_only_values_tell(device):
    function = lambda x: torch.lgamma(torch.special.erfcx(x * 2)).nonzero().sum(0) + 1  # noqa: E731
    compiled = torch.compile(function, backend="stitch", fullgraph=True, options={**INDUCTOR, "device": device})
    for n in (3, 5):
        x = torch.rand(n, 3)
        torch.testing.assert_close(compiled(x), function(x))
    assert stitch.torch.report()["inductor_calls"] >= 2


def test_modes_of_the_caller_are_not_inductors(alone):
    function = lambda x: torch.lgamma((x @ x).exp()) * 39.5  # noqa: E731
    x = torch.rand(4, 4)
    with torch.inference_mode(), torch.device("cpu"), torch.autocast("cpu"):
        torch.testing.assert_close(run(function, x, options=alone), function(x))
    kernels, inductor, _ = calls()
    assert kernels == 0 and inductor >= 2


NO_COMPILER = """
run = torch.compile(lambda x: torch.lgamma((x * 40.5).exp() + 1).softmax(-1), backend="stitch", options={options!r})
x = -torch.rand(3, 5)
for _ in range(2):
    torch.testing.assert_close(run(x), torch.lgamma((x * 40.5).exp() + 1).softmax(-1))
report = stitch.torch.report()
assert report["inductor_calls"] == 0 and report["eager_calls"] == 4, report
print([e["message"] for e in report["failed"] if e["kind"].startswith("inductor")])
"""


def test_without_a_compiler_everything_runs_eagerly_and_it_is_said_once(tmp_path):
    script = NO_COMPILER.format(options=INDUCTOR)
    said = elsewhere(script, tmp_path=tmp_path, CXX="/nowhere/g++", TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
    assert said.startswith('["Inductor does not compile aten.') and said.count("Inductor does not") == 1, said


def test_what_fails_when_it_runs_runs_eagerly(monkeypatch, caplog):
    def fails(operators, values):
        def run(arguments):
            arguments.clear()
            raise RuntimeError("an assertion of Inductor's")

        return run

    monkeypatch.setattr(_inductor, "_compiled", fails)
    function = torch.compile(lambda x: torch.lgamma(x * 41.5), backend="stitch", options=INDUCTOR)
    x = torch.rand(5)
    with caplog.at_level(logging.WARNING, "stitch.torch"):
        for _ in range(2):
            torch.testing.assert_close(function(x), torch.lgamma(x * 41.5))
    said = [r.getMessage() for r in caplog.records if "Inductor" in r.getMessage()]
    assert len(said) == 1 and "does not run aten.lgamma.default (RuntimeError: an assertion of Inductor's)" in said[0]


@pytest.mark.parametrize("wrong", [None, torch.ones(5, dtype=torch.float64), torch.ones(4)])
def test_results_that_are_others_than_were_traced_are_not_taken(wrong, monkeypatch):
    monkeypatch.setattr(_inductor, "_compiled", lambda operators, values: lambda arguments: [wrong, wrong])
    x = torch.rand(5)
    found = run(lambda x: tuple(torch.frexp(x * 48.5)), x, options={"fallback": "inductor"})
    torch.testing.assert_close(found, tuple(torch.frexp(x * 48.5)))
    (said,) = [e["message"] for e in stitch.torch.report()["failed"] if e["kind"] != "device"]
    assert "was traced, and" in said


def test_an_interrupt_and_a_lack_of_memory_are_the_users(monkeypatch):
    x = torch.rand(5)
    for error in (KeyboardInterrupt, torch.OutOfMemoryError):
        torch._dynamo.reset()

        def raises(arguments, error=error):
            raise error

        monkeypatch.setattr(_inductor, "_compiled", lambda operators, values, raises=raises: raises)
        with pytest.raises(error):
            run(lambda x: torch.lgamma(x * 42.5), x, options=INDUCTOR)


def graph_of(function, *inputs):
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    with mode:
        return make_fx(function)(*[mode.from_tensor(x) for x in inputs])


def test_inputs_are_freed_after_their_last_use():
    seen = []

    @torch.library.custom_op("stitch_test::looks", mutates_args=())
    def looks(x: torch.Tensor) -> torch.Tensor:
        seen.append(watched() is None)
        return x.clone()

    looks.register_fake(lambda x: torch.empty_like(x))
    operators = graph_of(lambda x: looks(torch.lgamma(x)), torch.rand(5))
    compiled = _inductor.Compiled(operators, _inductor.boxed(operators), torch.device("cpu"))
    for _ in range(2):
        arguments = [torch.rand(5)]
        watched = weakref.ref(arguments[0])
        compiled(arguments)
        assert arguments == []
    assert seen == [False, True]  # the first call might have to be made again


def test_the_graph_holds_nothing_that_a_part_of_it_was_given(monkeypatch):
    graphs = []
    boxed = _inductor.boxed
    monkeypatch.setattr(_inductor, "boxed", lambda graph: graphs.append(graph) or boxed(graph))
    x = -torch.rand(4, 6)
    run(lambda x: torch.lgamma((x * 43.5).exp() + 2).softmax(-1), x, options=INDUCTOR)
    code = graphs[-1].code
    assert "box(fused_1);  fused_1 = None" in code.replace("fused_0", "fused_1") and "rest_0(box)" in code, code


def test_nothing_is_compiled_or_loaded_in_a_capture(monkeypatch):
    operators = graph_of(lambda x: torch.lgamma(x * 44.5), torch.rand(5))
    compiled = _inductor.Compiled(operators, _inductor.boxed(operators), torch.device("cuda"))
    capturing = True
    monkeypatch.setattr(_runtime.cuda, "is_capturing", lambda device: capturing)
    x = torch.rand(5)
    torch.testing.assert_close(compiled([x]), torch.lgamma(x * 44.5))
    assert calls() == [0, 0, 0]
    capturing = False
    torch.testing.assert_close(compiled([x]), torch.lgamma(x * 44.5))
    capturing = True
    torch.testing.assert_close(compiled([x]), torch.lgamma(x * 44.5))
    assert calls() == [0, 2, 0]


def test_a_forked_child_runs_eagerly(alone):
    x = torch.rand(8)
    parents = torch.compile(lambda x: torch.lgamma(x * 45.5), backend="stitch", options=alone)
    parents(x)

    def child():
        stitch.torch.reset()
        torch.testing.assert_close(parents(x), torch.lgamma(x * 45.5))
        torch.testing.assert_close(run(lambda x: torch.lgamma(x * 46.5), x, options=alone), torch.lgamma(x * 46.5))
        report = stitch.torch.report()
        return report["inductor_calls"], [e["kind"] for e in report["failed"] if e["kind"] != "unavailable"]

    assert result_of_child(child) == "(0, ['inductor: fork'])"


def test_a_function_compiled_ahead_is_compiled_where_it_is_loaded(ahead, tmp_path):  # noqa: F811
    function = torch.compile(lambda x: torch.lgamma(x * 47.5), backend="stitch", fullgraph=True, options=INDUCTOR)
    x = torch.rand(6)
    function.aot_compile(((x,), {})).save_compiled_function(str(tmp_path / "function.pt"))
    script = """
with open(sys.argv[1], "rb") as file:
    ahead = torch.compiler.load_compiled_function(file)
x = torch.rand(6)
torch.testing.assert_close(ahead(x), torch.lgamma(x * 47.5))
print([stitch.torch.report()[name] for name in ("kernel_calls", "inductor_calls", "eager_calls", "failed")])
"""
    assert elsewhere(script, tmp_path / "function.pt", tmp_path=tmp_path) == "[1, 1, 0, []]"


def test_nothing_is_said_when_a_program_ends(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import torch, stitch.torch\n"
        f"run = torch.compile(lambda x: torch.lgamma((x * 2).exp()), backend='stitch', options={INDUCTOR!r})\n"
        "assert run(torch.ones(4)).shape == (4,) and stitch.torch.report()['inductor_calls'] == 1\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=dict(os.environ))
    said = [line for line in done.stderr.splitlines() if "stays with PyTorch" not in line and "No CUDA runtime" not in line]
    assert (done.returncode, done.stdout, said) == (0, "", []), done.stderr


def test_operators_with_effects_run_eagerly_and_it_is_said_once():
    """Those of linalg's checks, where PyTorch traces them: releases differ (2.11), for all back ends."""

    @torch.library.custom_op("stitch_test::refuses", mutates_args=())
    def refuses(x: torch.Tensor) -> None:
        if x.sum() < 0:
            raise RuntimeError("a sum below 0")

    refuses.register_fake(lambda x: None)
    torch.library._register_effectful_op("stitch_test::refuses", _EffectType.ORDERED)

    def checked(x):
        refuses(x)
        return torch.lgamma(x)

    x = torch.rand(5) + 1
    function = torch.compile(checked, backend="stitch", options={"fallback": "inductor"})
    for _ in range(2):
        torch.testing.assert_close(function(x), checked(x))
    with pytest.raises(RuntimeError, match="a sum below 0"):
        function(-x)
    report = stitch.torch.report()
    (said,) = [e["message"] for e in report["failed"] if e["kind"] != "device"]
    assert "operators with effects" in said and report["inductor_calls"] == 0


def test_checks_that_pytorch_traces_are_made():
    singular = torch.zeros(5, 5)
    try:
        torch.compile(torch.linalg.inv, backend="aot_eager")(singular)
        pytest.skip("this PyTorch traces no checks of linalg, whatever the back end")
    except RuntimeError:
        torch._dynamo.reset()
    x = torch.randn(5, 5) + 5 * torch.eye(5)
    function = torch.compile(torch.linalg.inv, backend="stitch", options={"fallback": "inductor"})
    torch.testing.assert_close(function(x), torch.linalg.inv(x))
    with pytest.raises(RuntimeError, match="singular"):
        function(singular)
