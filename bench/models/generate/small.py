#!/usr/bin/env python3
"""The workloads of workloads.py with few layers and small extents, so that whole programs run within seconds on the
emulated device, every step beside the float64 reference: writes tests/data/small_models/NAME.hlo.txt.gz.

    python3 bench/models/generate/small.py [NAME…]      with JAX (0.10.2 wrote those that are there)
"""
import functools
import gzip
import pathlib
import re
import sys

import jax
import workloads as W

OUT = pathlib.Path(__file__).resolve().parents[3] / "tests/data/small_models"

W.bert_params = functools.partial(W.bert_params, vocab=96, positions=32)
W.dien_params = functools.partial(W.dien_params, items=50, cats=9, users=40)

LLAMA = dict(layers=2, d=64, n=4, kv=2, ff=96, vocab=80)
SMALL = {
    "bert_infer": lambda: W.bert_infer(2, 12, layers=2, d=48, n=4),
    "bert_train": lambda: W.bert_train(2, 12, layers=2, d=48, n=4),
    "dien_infer": lambda: W.dien_infer(6, 5),
    "dien_train": lambda: W.dien_train(6, 5),
    # As many turns as the planner makes loops of again.
    "dien_train_unrolled": lambda: W.dien_train(6, 12, unroll=True),
    "transformer_train": lambda: W.transformer_train(2, 7, 6, layers=1, d=32, n=2, vocab=60),
    "asr_infer": lambda: W.asr_infer(1, 48, layers=1, d=32, n=2, vocab=24),
    "crnn_infer": lambda: W.crnn_infer(1, unroll=True, c=8),
    "bert_infer_f16": lambda: W.bert_infer(2, 16, W.f16, layers=2, d=64, n=4),
    "bert_train_lamb": lambda: W.bert_train(2, 12, layers=1, d=48, n=4, optimizer=W.lamb),
    "gpt2_train": lambda: W.gpt2_train(2, 10, layers=1, d=48, n=4, vocab=70),
    "llama_prefill": lambda: W.llama_prefill(2, 12, **LLAMA),
    "llama_decode": lambda: W.llama_decode(3, 20, **LLAMA),
    "llama_train": lambda: W.llama_train(2, 12, **LLAMA),
    "resnet50_train": lambda: W.resnet_train(2, (1, 1), 24, 10),
    "unet_block": lambda: W.unet_block(1, 6, 64, 5, 4),
    "rwkv_block": lambda: W.rwkv_block(2, 9, 40),
    "graph_network": lambda: W.graph_network(40, 90, 40, 2, 5),
}


def main():
    assert set(SMALL) == set(W.WORKLOADS), "a workload more or less"
    OUT.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or SMALL:
        step, arguments = SMALL[name]()
        text = jax.jit(step).lower(*arguments).compiler_ir("hlo").as_hlo_text()
        text = re.sub(r", metadata=\{[^}]*\}", "", text)
        (OUT / f"{name}.hlo.txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{name}: {len(text)} characters")


if __name__ == "__main__":
    main()
