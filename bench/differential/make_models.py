"""Writes whole models with the other implementations' results: make_models.py FOLDER hlo | onnx [NAME…]"""
import pathlib
import sys

import elements
from case_file import write_file


def make_hlo(folder, names):
    import xla
    xla.jax.config.update("jax_enable_x64", False)  # as models are written
    import jax_models
    for name in names or jax_models.MODELS:
        function, arguments = jax_models.MODELS[name]
        text = xla.lowered_text(function, arguments)
        results = xla.run_text(text, arguments)
        import numpy as np
        case = {"name": f"model/{name}", "subject": name, "model": text, "inputs": [elements.document(np.asarray(a)) for a in arguments],
                "outputs": [elements.document(value) for value in results]}
        write_file(folder / f"hlo.{name}.json.gz", "XLA's CPU backend", ["jax", "jaxlib", "numpy"], [case], flushes=True)


def main():
    folder, kind, names = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if kind == "hlo":
        make_hlo(folder, names)
    else:
        import onnx_models
        onnx_models.make(folder, names)


if __name__ == "__main__":
    main()
