"""Writes the cases of HLO opcodes, with XLA's results, into a folder: make_hlo.py FOLDER OPCODE…

A process of its own per call: XLA ends the process on some modules, and then says on which (the file names the case
that was begun last).
"""
import pathlib
import sys

import elements
import hlo_cases
import xla
from case_file import write_file

# jax writes these out (chlo), XLA's CPU backend has no code for them in every type: there jax's own expansion answers.
EXPANDED = {"acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atanh": "atanh", "cosh": "cosh", "sinh": "sinh"}


def results_of(opcode, text, inputs):
    try:
        return xla.run_text(hlo_cases.xla_text(opcode, text), inputs)
    except xla.Refused as refusal:
        if opcode not in EXPANDED or "UNIMPLEMENTED" not in str(refusal):
            raise
    return xla.run_text(xla.lowered_text(getattr(xla.jax.lax, EXPANDED[opcode]), inputs), inputs)


def main():
    folder = pathlib.Path(sys.argv[1])
    for opcode in sys.argv[2:]:
        cases, refused = [], []
        begun = folder / f"{opcode}.begun"
        for name, text, inputs in hlo_cases.cases(opcode):
            begun.write_text(name)
            try:
                results = results_of(opcode, text, inputs)
            except xla.Refused as refusal:
                refused.append({"name": name, "why": str(refusal)})
                continue
            cases.append({"name": name, "subject": opcode, "model": text,
                          "inputs": [elements.document(value) for value in inputs],
                          "outputs": [elements.document(value) for value in results]})
        write_file(folder / f"{opcode}.json.gz", "XLA's CPU backend", ["jax", "jaxlib", "numpy"], cases, refused, flushes=True)
        begun.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
