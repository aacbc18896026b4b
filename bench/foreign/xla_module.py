"""What XLA's GPU compiler dumps of a module: which kernels it launches, with which buffers, and what each must compute.

A kernel's reference is its own HLO, cut out of the optimised module and run by XLA's CPU backend. Layouts are a matter of
where bytes lie: arrays here are logical ones, and only `to_buffer` and `from_buffer` know the physical order. Bitcasts, whose
meaning is physical, are spelled as transposes and a reshape.
"""
import os
import re
import sys

import jax
import ml_dtypes
import numpy as np
from jax._src.lib import xla_client

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../models/generate"))
import xla_figures

DTYPES = {"pred": np.bool_, "s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "s32": np.int32, "u32": np.uint32,
          "s64": np.int64, "u64": np.uint64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
          "f64": np.float64}


class Leaf:
    """An array's shape: type, sizes, and the order of its dimensions in memory."""

    def __init__(self, dtype, sizes, layout):
        self.dtype = dtype
        self.sizes = [int(s) for s in sizes.split(",") if s]
        minor_first = [int(d) for d in re.split(r"[:}]", layout or "")[0].lstrip("{").split(",") if d.strip()]
        self.order = minor_first[::-1] or list(range(len(self.sizes)))  # dimension of the longest stride first
        self.count = int(np.prod(self.sizes, dtype=np.int64))

    def text(self, sizes=None):
        return f"{self.dtype}[{','.join(map(str, self.sizes if sizes is None else sizes))}]"

    def physical(self):
        return [self.sizes[d] for d in self.order]

    def from_buffer(self, flat):
        return flat.reshape(self.physical()).transpose(np.argsort(self.order)) if self.sizes else flat.reshape(())

    def to_buffer(self, array):
        return np.ascontiguousarray(np.asarray(array).transpose(self.order)).reshape(-1)


def leaves(shape):
    return [Leaf(*m) for m in re.findall(r"(\w+)\[([\d,]*)\](\{[^{}]*\})?", shape)]


def without(text, key):
    """`text` without its attribute `key`, whose value may be a nest of braces."""
    while (start := text.find(f", {key}=")) >= 0:
        at, depth, quoted = start + len(key) + 3, 0, False
        while at < len(text):
            ch = text[at]
            quoted ^= ch == '"' and text[at - 1] != "\\"
            depth += 0 if quoted else (ch in "{(") - (ch in "})")
            if not quoted and depth == 0 and (ch in "})" or (ch == "," and text[at - 1] not in "({")):
                break
            at += 1
        text = text[:start] + text[at + (text[at:at + 1] in ("}", ")")):]
    return text


class Module:
    """The optimised, scheduled module."""

    def __init__(self, text):
        self.bodies, self.computations, name = {}, {}, None
        for line in re.sub(r"/\*.*?\*/", "", text).splitlines():
            head = xla_figures.HEAD.match(line)
            if head and " = " not in line.split("(")[0]:
                name = head[2]
                self.bodies[name] = {}
                if head[1]:
                    self.entry = name
                continue
            m = xla_figures.LINE.match(line)
            if m and name:
                for key in ("metadata", "backend_config", "sharding", "frontend_attributes", "origin"):
                    line = without(line, key)
                self.bodies[name][m[2]] = line.strip()
        self.computations, _ = xla_figures.parse(text)

    def launching(self):
        """Computations whose instructions are launched: the entry and the loops'."""
        found, queue = [], [self.entry]
        while queue:
            name = queue.pop(0)
            found.append(name)
            for i in self.computations[name].values():
                if i.op == "while":
                    queue += [i.attr("body"), i.attr("condition")]
                elif i.op == "call":
                    queue.append(i.attr("to_apply"))
        return found

    def bitcast(self, owner, line):
        i = self.computations[owner][xla_figures.LINE.match(line)[2]]
        source, target = (leaves(x.shape)[0] for x in (self.computations[owner][i.operands[0]], i))
        name, steps, operand, sizes = i.name, [], "%" + i.operands[0], source.sizes
        def step(sizes, operation, more=""):
            nonlocal operand
            steps.append([f"%{name}.cast{len(steps)}", target.text(sizes), f"{operation}({operand}){more}"])
            operand = steps[-1][0]
        if source.dtype != target.dtype:
            step(sizes, "bitcast-convert")
        step(source.physical(), "transpose", f", dimensions={{{','.join(map(str, source.order))}}}")
        step(target.physical(), "reshape")
        step(target.sizes, "transpose", f", dimensions={{{','.join(map(str, np.argsort(target.order)))}}}")
        steps[-1][0] = ("ROOT " if i.root else "") + f"%{name}"
        return [" = ".join((a, f"{b} {c}")) for a, b, c in steps]

    def product(self, owner, line):
        """A dot, its operands widened to its result's type: the CPU backend has no products of bf16 or s8 with wide sums."""
        i = self.computations[owner][xla_figures.LINE.match(line)[2]]
        target, lines = leaves(i.shape)[0], []
        for k, operand in enumerate(i.operands):
            source = leaves(self.computations[owner][operand].shape)[0]
            if source.dtype != target.dtype:
                wide = f"%{i.name}.wide{k}"
                lines.append(f"{wide} = {target.dtype}{source.text().removeprefix(source.dtype)} convert(%{operand})")
                line = re.sub(rf"%{re.escape(operand)}(?=[,)])", wide, line, count=1)
        return [*lines, line]

    def body(self, name, head):
        lines = []
        for line in self.bodies[name].values():
            spelled = {"bitcast": self.bitcast, "dot": self.product}.get(xla_figures.LINE.match(line)[4])
            lines += spelled(name, line) if spelled else [line]
        plain = [re.sub(r"(\w+\[[\d,]*\])\{[^{}]*\}", r"\1", line) for line in lines]
        return f"{head}%{name} {{\n  " + "\n  ".join(plain) + "\n}\n"

    def called(self, text, seen):
        """Computations that `text` names, those that they name, and so on; callees first."""
        for name in re.findall(r"(?:to_apply|calls|body|condition|select|scatter|true_computation|false_computation)=%?([\w.\-]+)", text):
            if name not in seen and name in self.bodies:
                yield from self.called("\n".join(self.bodies[name].values()), seen)
                seen.add(name)
                yield self.body(name, "")

    def isolated(self, owner, i):
        """The module of one instruction, its distinct operands in order being the parameters."""
        if i.op == "fusion":
            name, seen = i.attr("calls"), set()
            text = "\n".join(self.bodies[name].values())
            return "HloModule kernel\n" + "".join(self.called(text, seen)) + self.body(name, "ENTRY ")
        line = self.bodies[owner][i.name].removeprefix("ROOT ")
        parameters = [f"%{o} = {self.computations[owner][o].shape} parameter({n})" for n, o in enumerate(dict.fromkeys(i.operands))]
        text = "\n  ".join([*parameters, "ROOT " + line])
        text = re.sub(r"(\w+\[[\d,]*\])\{[^{}]*\}", r"\1", text)
        return "HloModule kernel\n" + "".join(self.called(line, set())) + f"ENTRY %kernel_entry {{\n  {text}\n}}\n"


class Reference:
    """One kernel's HLO on XLA's CPU backend."""

    def __init__(self, text):
        client = jax.devices("cpu")[0].client
        module = xla_client.hlo.hlo_module_from_text(text)
        program = xla_client._xla.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
        self.run = client.compile_and_load(program, xla_client._xla.DeviceList(tuple(jax.devices("cpu")[:1])),
                                           xla_client.CompileOptions())

    def __call__(self, arrays):
        on_device = [jax.device_put(np.ascontiguousarray(a)) for a in arrays]
        return [np.asarray(r) for r in self.run.execute(on_device)]


class Buffers:
    """Where each value lies: (allocation, offset), from the dumped assignment."""

    def __init__(self, text, module):
        self.places, self.module, allocation = {}, module, None
        for line in text.splitlines():
            if m := re.match(r"allocation (\d+):", line):
                allocation = int(m[1])
            elif m := re.match(r"\s*value: <\d+ ([\w.\-]+)(\{[\d,]*\})? @\d+> \(size=\d+,offset=(\d+)\)", line):
                self.places[m[1], (m[2] or "{}")] = (allocation, int(m[3]))

    def place(self, owner, name, index="{}"):
        """Of an instruction's result; something of its own where the assignment does not tell."""
        i = self.module.computations[owner][name]
        if i.op == "bitcast":
            return self.place(owner, i.operands[0], index)
        if i.op == "get-tuple-element":
            source, element = self.module.computations[owner][i.operands[0]], re.search(r"index=(\d+)", i.rest)[1]
            if source.op == "tuple":
                return self.place(owner, source.operands[int(element)], index)
            return self.place(owner, source.name, f"{{{element}}}")
        return self.places.get((name, index), (owner, name, index))
