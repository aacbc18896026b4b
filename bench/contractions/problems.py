#!/usr/bin/env python3
"""500 products of matrices to judge predictions by: shapes of models and papers, and what lies between.

    bench/contractions/problems.py           writes bench/contractions/problems.json; the same every time
    bench/contractions/problems.py --list    prints how many there are of each family and dtype

Fields: `name` (family/which), `dtype` of both operands, `batch`, `m`, `n`, `k`, `left` and `right`, `result` (dtype).
left plain is [m, k] row by row, turned [k, m]; right plain is [k, n], turned [n, k], as the weights of a linear layer lie.
"""
import argparse
import collections
import itertools
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
COUNT = 500
TOKENS = (1, 16, 128, 512, 2048, 8192)
#         dtype, then layers: name, outputs, inputs
MODELS = {
    "bert_base": ("f16", ("qkv", 2304, 768), ("out", 768, 768), ("up", 3072, 768), ("down", 768, 3072)),
    "bert_large": ("f16", ("out", 1024, 1024), ("up", 4096, 1024), ("down", 1024, 4096)),
    "gpt2_xl": ("f16", ("qkv", 4800, 1600), ("out", 1600, 1600), ("up", 6400, 1600), ("down", 1600, 6400),
                ("head", 50257, 1600)),
    "llama_7b": ("bf16", ("qkv", 12288, 4096), ("out", 4096, 4096), ("gate_up", 22016, 4096), ("down", 4096, 11008),
                 ("head", 32000, 4096)),
    "llama_70b": ("bf16", ("qkv", 10240, 8192), ("out", 8192, 8192), ("gate_up", 57344, 8192), ("down", 8192, 28672)),
    "mixtral": ("bf16", ("qkv", 6144, 4096), ("router", 8, 4096), ("gate_up", 28672, 4096), ("down", 4096, 14336)),
}
#          name, side of the result, channels in, window's edge, channels out
RESNET50 = (("stem", 112, 3, 7, 64), ("a_in", 56, 64, 1, 64), ("a_mid", 56, 64, 3, 64), ("a_out", 56, 64, 1, 256),
            ("b_in", 28, 512, 1, 128), ("b_mid", 28, 128, 3, 128), ("b_out", 28, 128, 1, 512),
            ("c_in", 14, 1024, 1, 256), ("c_mid", 14, 256, 3, 256), ("c_out", 14, 256, 1, 1024),
            ("d_in", 7, 2048, 1, 512), ("d_mid", 7, 512, 3, 512), ("d_out", 7, 512, 1, 2048))
VGG16 = (("conv1", 224, 64, 3, 64), ("conv2", 112, 128, 3, 128), ("conv3", 56, 256, 3, 256), ("conv4", 28, 512, 3, 512),
         ("conv5", 14, 512, 3, 512))
ODD = ((7, 9, 11), (33, 65, 129), (127, 129, 131), (197, 768, 768), (333, 777, 555), (511, 513, 509), (577, 1024, 1024),
       (1000, 1000, 1000), (1023, 1025, 1027), (1500, 1280, 1280), (2047, 2049, 2051), (4095, 4097, 4099),
       (50, 30522, 768), (3000, 3000, 100))


def problem(name, m, n, k, dtype="f16", batch=1, left="plain", right="turned", result=None):
    return {"name": name, "dtype": dtype, "batch": batch, "m": m, "n": n, "k": k, "left": left, "right": right,
            "result": result or dtype}


def layers():
    for model, (dtype, *linear) in MODELS.items():
        for (layer, outputs, inputs), tokens in itertools.product(linear, TOKENS):
            yield problem(f"{model}/{layer}_{tokens}", tokens, outputs, inputs, dtype)


def gradients():
    """Of a layer's input (its weights lie the other way round) and of its weights (deep: over all tokens)."""
    for model in ("bert_base", "gpt2_xl", "llama_7b"):
        dtype, *linear = MODELS[model]
        for (layer, outputs, inputs), tokens in itertools.product(linear[:4], (512, 2048, 8192)):
            yield problem(f"{model}/{layer}_{tokens}_dx", tokens, inputs, outputs, dtype, right="plain")
            yield problem(f"{model}/{layer}_{tokens}_dw", outputs, inputs, tokens, dtype, left="turned", right="plain")


def attention():
    for (heads, size), length in itertools.product(((12, 64), (16, 64), (32, 128), (64, 128)), (128, 512, 1024, 2048, 4096)):
        dtype = "bf16" if size == 128 else "f16"
        yield problem(f"attention/scores_{heads}x{length}x{size}", length, length, size, dtype, heads)
        yield problem(f"attention/values_{heads}x{length}x{size}", length, size, length, dtype, heads, right="plain")
    for (heads, size), length in itertools.product(((12, 64), (32, 128)), (512, 2048, 8192)):  # of one new token
        yield problem(f"attention/decode_scores_{heads}x{length}x{size}", 1, length, size, "f16", 16 * heads)
        yield problem(f"attention/decode_values_{heads}x{length}x{size}", 1, size, length, "f16", 16 * heads, right="plain")


def papers():
    """ALCOP's products (arXiv 2210.16691, section 5; its batched ones are among attention's, its cubes among the squares)
    and its and DeepCuts' convolutions (PLDI'21) as the products that they come down to, recurrent layers as well."""
    for m, (n, k) in itertools.product((512, 1024), ((768, 768), (2304, 768), (3072, 768), (768, 3072))):
        yield problem(f"alcop/{m}x{n}x{k}", m, n, k, right="plain")
    for images, (layer, side, inputs, window, outputs) in itertools.product((1, 64), RESNET50):
        yield problem(f"resnet50/{layer}_{images}", images * side * side, outputs, inputs * window * window)
    for images, (layer, side, inputs, window, outputs) in itertools.product((1, 16), VGG16):
        yield problem(f"vgg16/{layer}_{images}", images * side * side, outputs, inputs * window * window)
    for images, (layer, outputs, inputs) in itertools.product((1, 64), (("fc6", 4096, 25088), ("fc8", 1000, 4096))):
        yield problem(f"vgg16/{layer}_{images}", images, outputs, inputs)
    for rows, hidden in itertools.product((1, 64), (512, 1024, 2048)):
        yield problem(f"lstm/{hidden}_{rows}", rows, 4 * hidden, hidden)


def squares():
    edges = (256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
    for edge, dtype, right in itertools.product(edges, ("f16", "bf16"), ("turned", "plain")):
        yield problem(f"square/{edge}_{dtype}_{right}", edge, edge, edge, dtype, right=right)
    for edge, right in itertools.product((1024, 4096), ("turned", "plain")):
        yield problem(f"square/{edge}_f16_turned_{right}", edge, edge, edge, left="turned", right=right)


def narrow_and_deep():
    for m, n, k in itertools.product((16384, 131072), (16, 64, 128), (64, 256, 1024)):
        yield problem(f"narrow/{m}x{n}x{k}", m, n, k, "bf16" if k == 256 else "f16", right="plain")
    for edge, k in itertools.product((64, 128, 256, 512), (8192, 32768, 131072)):
        yield problem(f"deep/{edge}x{edge}x{k}", edge, edge, k, right="turned" if edge < 256 else "plain")


def odd():
    for at, (m, n, k) in enumerate(ODD):
        yield problem(f"odd/{m}x{n}x{k}", m, n, k, "bf16" if at % 3 == 2 else "f16", right="plain" if at % 2 else "turned")


def other_types():
    for edge in (512, 1024, 2048, 4096):
        yield problem(f"square/{edge}_f32", edge, edge, edge, "f32", right="plain")
    for dtype, result in (("f32", "f32"), ("s8", "s32"), ("f8e4m3", "f16")):
        for (layer, outputs, inputs), tokens in itertools.product(MODELS["llama_7b"][2:5], (16, 512, 2048)):
            yield problem(f"llama_7b/{layer}_{tokens}_{dtype}", tokens, outputs, inputs, dtype, result=result)


def between():
    for m, n, k in itertools.product((96, 640, 1920, 5120), repeat=3):
        at = (m + n + k) // 32
        yield problem(f"between/{m}x{n}x{k}", m, n, k, "bf16" if at % 2 else "f16", right="plain" if at % 3 else "turned")


def problems():
    """Every family whole, then of what lies between as many as are missing; no product twice, whatever its name."""
    found = {}
    for each in itertools.chain(layers(), gradients(), attention(), papers(), squares(), narrow_and_deep(), odd(),
                                other_types(), between()):
        if len(found) == COUNT:
            break
        found.setdefault(json.dumps(each | {"name": ""}), each)
    return list(found.values())


def text_of(listed):
    return "[\n" + ",\n".join(json.dumps(each) for each in listed) + "\n]\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="write nothing, print the families")
    listed = problems()
    if parser.parse_args().list:
        for (family, dtype), count in collections.Counter((p["name"].split("/")[0], p["dtype"]) for p in listed).items():
            print(f"{count:4} {family} {dtype}")
        print(f"{len(listed):4} all")
        return
    (HERE / "problems.json").write_text(text_of(listed))


if __name__ == "__main__":
    main()
