"""Classifies pictures with an ONNX model of convolutions, in Stitch and, where it is installed, in onnxruntime.

The model is made here, with random weights, by the package `onnx` alone; the session takes any file's path instead.
"""

import sys

import numpy

import stitch.onnx

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    print("skipped: onnx is not installed (pip install onnx)")
    sys.exit(0)

CHANNELS, CLASSES = (3, 8, 16), 5


def model() -> bytes:
    """Two convolutions with normalisation, a hard swish and a pool each, and a classifier."""
    random = numpy.random.default_rng(0)
    nodes, weights, x = [], {}, "pictures"
    for i, (inputs, outputs) in enumerate(zip(CHANNELS, CHANNELS[1:], strict=False)):
        weights[f"w{i}"] = random.standard_normal((outputs, inputs, 3, 3)) * 0.2
        for name in ("scale", "shift", "mean", "variance"):
            weights[f"{name}{i}"] = random.uniform(0.5, 1.5, outputs)
        normalised = [f"c{i}", f"scale{i}", f"shift{i}", f"mean{i}", f"variance{i}"]
        nodes += [
            helper.make_node("Conv", [x, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", normalised, [f"n{i}"]),
            helper.make_node("HardSwish", [f"n{i}"], [f"a{i}"]),
            helper.make_node("MaxPool", [f"a{i}"], [f"p{i}"], kernel_shape=[2, 2], strides=[2, 2]),
        ]
        x = f"p{i}"
    weights["w"] = random.standard_normal((CHANNELS[-1], CLASSES)) * 0.3
    nodes += [
        helper.make_node("GlobalAveragePool", [x], ["averages"]),
        helper.make_node("Flatten", ["averages"], ["features"]),
        helper.make_node("MatMul", ["features", "w"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["classes"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "vision",
        [helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [helper.make_tensor_value_info("classes", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(value.astype("float32"), name) for name, value in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(made)
    return made.SerializeToString()


def main() -> None:
    source = model()
    session = stitch.onnx.InferenceSession(source)
    for batch in (2, 4):  # each has a program of its own
        pictures = numpy.random.default_rng(batch).standard_normal((batch, 3, 16, 16), "float32")
        classes = session.run(["classes"], {"pictures": pictures})[0]
        print(f"{batch} pictures are of the classes {classes.argmax(1).tolist()}")
    print(session.info())
    try:
        import onnxruntime
    except ImportError:
        return
    theirs = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, {"pictures": pictures})[0]
    print(f"onnxruntime's results are {abs(classes - theirs).max():.1e} apart at most")
    numpy.testing.assert_allclose(classes, theirs, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main()
