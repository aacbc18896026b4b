#!/usr/bin/env python3
"""Where Winograd's convolutions (docs/contractions.md, Convolutions) are predicted to win: the bound, and what is planned.

    bench/contractions/winograd.py [--stitch build/release/bin/stitch] [--write]

The bound needs nothing of how transforms are written: the direct form and the batched product of F(2 × 2, 3 × 3) and
F(4 × 4, 3 × 3) by our model of products (`stitch contractions --problems`), each transform as a launch and the bytes
that it has to move at the bandwidth of copies. What is planned is `stitch run --outline --price` of the convolution by
itself (features last, bias and ReLU behind it) with and without --winograd, by kernels of ours. Nothing is measured.
--write puts the page to bench/results/winograd.md. Errors: a stitch that fails, with what it said.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import provenance  # noqa: E402
#       bytes a µs that copies reach: bandwidth and copies' share of it, base/device_spec.cpp
GPUS = {"h100": 3352e3 * 0.91, "a100-80gb": 2039e3 * 0.855, "rtx3090": 936e3 * 0.92}
LAUNCH_US = 2.0  # of a kernel behind another: gap, ramp-up and drain
#         name, images, side, features, results
SHAPES = (
    ("resnet50/conv2", 64, 56, 64, 64), ("resnet50/conv3", 64, 28, 128, 128), ("resnet50/conv4", 64, 14, 256, 256),
    ("resnet50/conv5", 64, 7, 512, 512), ("resnet50/conv4, 1 image", 1, 14, 256, 256),
    ("vgg16/conv1_2", 16, 224, 64, 64), ("vgg16/conv2_2", 16, 112, 128, 128), ("vgg16/conv3_2", 16, 56, 256, 256),
    ("vgg16/conv4_2", 16, 28, 512, 512), ("vgg16/conv5_2", 16, 14, 512, 512), ("vgg16/conv1_1", 16, 224, 3, 64),
    ("unet/320", 8, 32, 320, 320), ("unet/640", 8, 16, 640, 640), ("unet/320, 64 × 64", 2, 64, 320, 320))
PAGE = """# Winograd's convolutions: the bound, and what is planned

Written by `{command}` on {date}, commit {commit}, {machine}; every time is a prediction, in µs, and nothing was measured.
Convolutions have windows of 3 × 3 and a padding of 1, features last.

## f32 by CUDA cores: the bound
The direct form (the faster of ours and the library's) beside a batched product and transforms that read and write every
element once.

{f32}

## f16 by tensor cores: the bound

{f16}

## f32: what is planned
A convolution with bias and ReLU in kernels of ours, without and with `--winograd`; *direct*: it stays as it is, since
the difference is within what both predictions may be off.

{planned}
"""
BYTES = {"f32": 4, "f16": 2}


def tiles_of(images, side, tile):
    return images * (-(-side // tile)) ** 2


def moved_bytes(shape, tile, dtype):
    """Of the input's, the filter's and the result's transform: each reads and writes every element once."""
    _, images, side, features, results = shape
    places, tiles, plane = (tile + 2) ** 2, tiles_of(images, side, tile), images * side * side
    return [BYTES[dtype] * elements for elements in (
        plane * features + places * tiles * features, features * results * (9 + places),
        places * tiles * results + plane * results)]


def problems_of(shape, dtype):
    _, images, side, features, results = shape
    yield {"name": "direct", "dtype": dtype, "images": images, "features": features, "results": results,
           "extents": [side, side], "window": [3, 3], "padding": 1}
    for tile in (2, 4):
        yield {"name": f"tiles of {tile}", "dtype": dtype, "batch": (tile + 2) ** 2, "m": tiles_of(images, side, tile),
               "n": results, "k": features, "left": "plain", "right": "plain", "result": dtype}


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def predicted(stitch, gpu, problems, folder):
    path = pathlib.Path(folder) / "problems.json"
    path.write_text(json.dumps(list(problems)))
    lines = run([stitch, "contractions", "--problems", path, "--target", gpu, "--json"]).splitlines()
    return [json.loads(line) for line in lines]


def hlo_of(shape):
    _, n, s, c, k = shape
    x, y = f"f32[{n},{s},{s},{c}]{{3,2,1,0}}", f"f32[{n},{s},{s},{k}]{{3,2,1,0}}"
    return f"""HloModule convolution

ENTRY main {{
  x = {x} parameter(0)
  w = f32[3,3,{c},{k}]{{3,2,1,0}} parameter(1)
  b = f32[{k}]{{0}} parameter(2)
  y = {y} convolution(x, w), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f
  bias = {y} broadcast(b), dimensions={{3}}
  sum = {y} add(y, bias)
  zero = f32[] constant(0)
  zeros = {y} broadcast(zero), dimensions={{}}
  ROOT r = {y} maximum(sum, zeros)
}}
"""


def planned(stitch, gpu, shape, folder, *granted):
    path = pathlib.Path(folder) / "convolution.hlo.txt"
    path.write_text(hlo_of(shape))
    report = json.loads(run([stitch, "run", path, "--target", gpu, "--products", "ours", "--outline", "--price",
                             "--json", "--quiet", *granted]))
    return report


def bound(stitch, gpu, shape, dtype, folder):
    """Direct, and of either tile product, transforms and both, µs; ours or the library's, whichever is faster."""
    answers = predicted(stitch, gpu, problems_of(shape, dtype), folder)
    direct, *products = (min(answer["predicted_us"], answer["library_us"]) for answer in answers)
    rows = []
    for tile, product in zip((2, 4), products, strict=True):
        transforms = sum(LAUNCH_US + moved / GPUS[gpu] for moved in moved_bytes(shape, tile, dtype))
        rows.append((product, transforms, product + transforms))
    return direct, rows


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def us(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def bound_table(options, dtype, folder):
    rows = []
    for gpu in options.gpus:
        for shape in SHAPES:
            direct, ((_, _, two), (product, transforms, four)) = bound(options.stitch, gpu, shape, dtype, folder)
            name, images, side, features, results = shape
            rows.append([gpu, name, f"{images}×{side}×{side}, {features} → {results}", us(direct), us(two), us(four),
                         f"{us(product)} + {us(transforms)}", f"{direct / min(two, four):.2f}"])
    header = ["GPU", "convolution", "images, features", "direct", "F(2×2)", "F(4×4)", "product + transforms of it",
              "direct ÷ best"]
    return table(header, rows)


def planned_table(options, folder):
    rows = []
    for gpu in options.gpus:
        for shape in SHAPES:
            before = planned(options.stitch, gpu, shape, folder)["price"]
            after = planned(options.stitch, gpu, shape, folder, "--winograd")["price"]
            written = after["launches"] != before["launches"]
            rows.append([gpu, shape[0], us(before["predicted_us"]), us(after["predicted_us"]) if written else "direct",
                         f"{before['predicted_us'] / after['predicted_us']:.2f}" if written else "",
                         f"{after['launches']:.0f}", f"{before['bytes'] / 1e6:.0f} → {after['bytes'] / 1e6:.0f}"])
    return table(["GPU", "convolution", "direct", "with --winograd", "direct ÷ that", "launches", "MB moved"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stitch", type=pathlib.Path, default=ROOT / "build/release/bin/stitch")
    parser.add_argument("--gpus", nargs="+", choices=list(GPUS), default=list(GPUS))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--bound", action="store_true", help="the bound alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = PAGE.format(f32=bound_table(options, "f32", folder), f16=bound_table(options, "f16", folder),
                           planned="" if options.bound else planned_table(options, folder),
                           **provenance.about("bench/contractions/winograd.py --write"))
    if options.write:
        (ROOT / "bench/results/winograd.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
