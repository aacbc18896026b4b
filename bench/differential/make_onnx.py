"""Writes the cases of ONNX operators, with onnxruntime's results, into a folder: make_onnx.py FOLDER DOMAIN:OPERATOR…"""
import base64
import ctypes
import pathlib
import sys

import numpy as np
import onnxruntime

import elements
import onnx_cases
from case_file import write_file
from onnx import TensorProto

# NumPy's arrays of these types go in and come out by their bits.
BY_BITS = {"bf16": TensorProto.BFLOAT16, "f8e4m3fn": TensorProto.FLOAT8E4M3FN, "f8e5m2": TensorProto.FLOAT8E5M2}
OF_ORT = {"tensor(bfloat16)": "bf16", "tensor(float8e4m3fn)": "f8e4m3fn", "tensor(float8e5m2)": "f8e5m2"}


class Refused(Exception):
    """onnxruntime does not take the model."""


def session_of(model_bytes, optimise=False):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model_bytes, options, providers=["CPUExecutionProvider"])


def run_model(model_bytes, names, arrays):
    try:
        session = session_of(model_bytes)
        binding = session.io_binding()
        for name, array in zip(names, arrays):
            kind = elements.name_of(array)
            array = np.ascontiguousarray(array) if array.ndim else np.array(array)
            if kind in BY_BITS:
                bits = array.view(np.uint16 if kind == "bf16" else np.uint8)
                value = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, BY_BITS[kind])
            else:
                value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
            binding.bind_ortvalue_input(name, value)
        kinds = [output.type for output in session.get_outputs()]
        for output in session.get_outputs():
            binding.bind_output(output.name, "cpu")
        session.run_with_iobinding(binding)
        return [array_of(value, kind) for value, kind in zip(binding.get_outputs(), kinds)]
    except Exception as error:  # onnxruntime's exceptions have no base of their own
        raise Refused(" ".join(str(error).split())[:300]) from None


def array_of(value, kind):
    if kind not in OF_ORT:
        return value.numpy()
    name = OF_ORT[kind]
    size = np.dtype(elements.TYPES[name]).itemsize
    count = int(np.prod(value.shape(), dtype=int))
    data = ctypes.string_at(value.data_ptr(), count * size) if count else b""
    return np.frombuffer(data, elements.TYPES[name]).reshape(value.shape())


def main():
    folder = pathlib.Path(sys.argv[1])
    for word in sys.argv[2:]:
        domain, operator = word.split(":")
        file = f"{domain}.{operator}".lstrip(".")
        cases, refused = [], []
        begun = folder / f"{file}.begun"
        for name, model, names, arrays in onnx_cases.cases(domain, operator):
            begun.write_text(name)
            data = model.SerializeToString()
            name = f"{domain}.{name}".lstrip(".")
            try:
                results = run_model(data, names, arrays)
            except Refused as refusal:
                refused.append({"name": name, "why": str(refusal)})
                continue
            cases.append({"name": name, "subject": f"{domain}.{operator}".lstrip("."), "model_base64": base64.b64encode(data).decode(),
                          "inputs": [elements.document(array, given) for given, array in zip(names, arrays)],
                          "outputs": [elements.document(np.asarray(value)) for value in results]})
        write_file(folder / f"{file}.json.gz", "onnxruntime", ["onnxruntime", "onnx", "numpy"], cases, refused)
        begun.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
