#!/usr/bin/env python3
"""The models of bench/models/onnx with few layers and small extents, by the same exporters, so that whole programs run
within seconds on the emulated device: writes tests/data/small_models/NAME.onnx.

    python3 bench/models/generate/small_onnx.py [NAME…]

needs torch, torchvision, timm, transformers, onnx and onnxscript (2.15.0, 0.29.2, 1.0.31, 5.24.0, 1.23.2 and 0.7.2 wrote
those that are there). As in the full ones, weights are marked external and their data is absent, so that they are inputs;
here that is every tensor of floats with more than four elements but a batch norm's statistics, since a variance is no
arbitrary number. Each has the kinds of operators that the full one has, and no others.
"""
import collections
import json
import pathlib
import sys
import warnings
from functools import partial

import onnx
import onnxscript.optimizer
import onnxscript.rewriter.onnx_fusions
import timm
import torch
import torchvision
import transformers
from torch import nn
from torch.nn import functional as F
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.efficientnet import MBConvConfig
from torchvision.models.mobilenetv3 import InvertedResidualConfig

ROOT = pathlib.Path(__file__).resolve().parents[3]
OUT = ROOT / "tests/data/small_models"
FULL = ROOT / "bench/models/onnx"



class Wrapped(nn.Module):
    """Makes a model's keyword arguments positional, and its results a tuple."""

    def __init__(self, model, names, results):
        super().__init__()
        self.m, self.names, self.results = model, names, results

    def forward(self, *inputs):
        out = self.m(**dict(zip(self.names, inputs)))
        found = tuple(out[name] for name in self.results)
        return found if len(found) > 1 else found[0]


def tokens(*shape, vocab=60):
    return torch.randint(0, vocab, shape)


BERT = dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            max_position_embeddings=72)
TEXT = ["input_ids", "attention_mask"]
TEXT_INPUTS = (tokens(2, 12), torch.ones(2, 12, dtype=torch.long))
BOTH = ["last_hidden_state", "pooler_output"]


def bert(attention="sdpa"):
    config = transformers.BertConfig(**BERT, attn_implementation=attention)
    return Wrapped(transformers.BertModel(config), TEXT, BOTH), TEXT_INPUTS


def albert():
    config = transformers.AlbertConfig(**BERT, embedding_size=16, attn_implementation="eager")
    return Wrapped(transformers.AlbertModel(config), TEXT, BOTH), TEXT_INPUTS


def distilbert():
    config = transformers.DistilBertConfig(vocab_size=60, dim=32, n_layers=2, n_heads=4, hidden_dim=64,
                                           max_position_embeddings=32, attn_implementation="sdpa")
    return Wrapped(transformers.DistilBertModel(config), TEXT, BOTH[:1]), TEXT_INPUTS


def gpt2():
    config = transformers.GPT2Config(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=32, use_cache=False)
    return Wrapped(transformers.GPT2LMHeadModel(config), TEXT[:1], ["logits"]), (tokens(2, 12),)


def llama():
    config = transformers.LlamaConfig(vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
                                      use_cache=False)
    return Wrapped(transformers.LlamaForCausalLM(config), TEXT[:1], ["logits"]), (tokens(2, 12),)


def t5():
    config = transformers.T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False,
                                   attn_implementation="eager")
    names = [*TEXT, "decoder_input_ids"]
    return Wrapped(transformers.T5ForConditionalGeneration(config), names, ["logits"]), (*TEXT_INPUTS, tokens(2, 4))


def whisper():
    config = transformers.WhisperConfig(d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64,
                                        num_mel_bins=8, max_source_positions=15)
    encoder = transformers.models.whisper.modeling_whisper.WhisperEncoder(config)
    return Wrapped(encoder, ["input_features"], ["last_hidden_state"]), (torch.randn(2, 8, 30),)


# ---- vision --------------------------------------------------------------------------------------------------------


def convnext():
    stages = [CNBlockConfig(8, 16, 1), CNBlockConfig(16, 24, 1), CNBlockConfig(24, 32, 2), CNBlockConfig(32, None, 1)]
    return torchvision.models.ConvNeXt(stages, stochastic_depth_prob=0.1, num_classes=10), (torch.randn(1, 3, 32, 32),)


def efficientnet():
    stages = [MBConvConfig(1, 3, 1, 8, 8, 1, 1.0, 1.0), MBConvConfig(6, 3, 2, 8, 8, 2, 1.0, 1.0),
              MBConvConfig(6, 5, 2, 8, 16, 1, 1.0, 1.0)]
    model = torchvision.models.EfficientNet(stages, dropout=0.2, num_classes=10, last_channel=24)
    return model, (torch.randn(1, 3, 32, 32),)


def mobilenet():
    stage = partial(InvertedResidualConfig, width_mult=1.0)
    stages = [stage(8, 3, 8, 8, False, "RE", 1, 1), stage(8, 3, 24, 8, False, "RE", 2, 1),
              stage(8, 5, 24, 16, True, "RE", 2, 1), stage(16, 3, 40, 16, True, "HS", 1, 1)]
    model = torchvision.models.MobileNetV3(stages, last_channel=32, num_classes=10)
    return model, (torch.randn(1, 3, 32, 32),)


def resnet():
    block = torchvision.models.resnet.Bottleneck
    model = torchvision.models.ResNet(block, [1, 1, 1, 1], num_classes=10)
    model.conv1, model.bn1, model.inplanes = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), 8
    model.layer1, model.layer2 = model._make_layer(block, 4, 2), model._make_layer(block, 8, 1, stride=2)
    model.layer3, model.layer4 = nn.Identity(), nn.Identity()
    model.fc = nn.Linear(32, 10)
    return model, (torch.randn(2, 3, 32, 32),)


def swin():
    model = torchvision.models.SwinTransformer(patch_size=[4, 4], embed_dim=16, depths=[2, 2], num_heads=[2, 4],
                                               window_size=[2, 2], num_classes=10)
    return model, (torch.randn(1, 3, 32, 32),)


def vit():
    model = torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32,
                                                 mlp_dim=64, num_classes=10)
    return model, (torch.randn(1, 3, 32, 32),)


def mixer():
    model = timm.models.mlp_mixer.MlpMixer(num_classes=10, img_size=32, patch_size=8, num_blocks=2, embed_dim=32)
    return model, (torch.randn(1, 3, 32, 32),)


# ---- models without a package ----------------------------------------------------------------------------------------


class Crnn(nn.Module):
    """Convolutions and two bidirectional LSTMs over the columns of a line of text."""

    def __init__(self, channels=8, hidden=8, classes=13, unrolled=False):
        super().__init__()
        c = channels
        widths = [(1, c), (c, 2 * c), (2 * c, 4 * c), (4 * c, 4 * c), (4 * c, 8 * c)]
        pools = [nn.MaxPool2d(2, 2), nn.MaxPool2d(2, 2), nn.Identity(), nn.MaxPool2d((2, 1)), nn.MaxPool2d((2, 1))]
        layers = []
        for (read, written), pool in zip(widths, pools):
            layers += [nn.Conv2d(read, written, 3, padding=1, bias=False), nn.BatchNorm2d(written), nn.ReLU(), pool]
        layers += [nn.Conv2d(8 * c, 8 * c, 2, bias=False), nn.BatchNorm2d(8 * c), nn.ReLU()]
        self.cnn = nn.Sequential(*layers)
        self.unrolled, self.hidden = unrolled, hidden
        if unrolled:
            self.forwards, self.backwards = nn.LSTMCell(8 * c, hidden), nn.LSTMCell(8 * c, hidden)
        else:
            self.rnn = nn.LSTM(8 * c, hidden, num_layers=2, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, classes)

    def run(self, cell, steps):
        h = c = steps[0].new_zeros(steps[0].shape[0], self.hidden)
        found = []
        for step in steps:
            h, c = cell(step, (h, c))
            found.append(h)
        return found

    def forward(self, x):
        x = self.cnn(x).squeeze(2).permute(2, 0, 1)
        if self.unrolled:
            steps = [x[t] for t in range(x.shape[0])]
            there, back = self.run(self.forwards, steps), self.run(self.backwards, steps[::-1])[::-1]
            x = torch.cat([torch.stack(there), torch.stack(back)], -1)
        else:
            x, _ = self.rnn(x)
        return F.log_softmax(self.fc(x), -1)


def crnn(unrolled):
    return Crnn(unrolled=unrolled), (torch.randn(2, 1, 32, 20),)


class Dlrm(nn.Module):
    def __init__(self, tables=3, rows=20, width=8):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        relu = nn.ReLU()
        self.bot = nn.Sequential(nn.Linear(5, 16), relu, nn.Linear(16, 12), relu, nn.Linear(12, width), relu)
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 16), relu, nn.Linear(16, 12), relu, nn.Linear(12, 1))
        first, second = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("pairs", first * (tables + 1) + second)

    def forward(self, dense, idx):
        x = self.bot(dense)
        bags = [table(idx[t]).sum(1) for t, table in enumerate(self.emb)]
        all_of = torch.stack([x, *bags], 1)
        products = torch.bmm(all_of, all_of.transpose(1, 2)).flatten(1)
        return torch.sigmoid(self.top(torch.cat([x, products.index_select(1, self.pairs)], 1)))


def dlrm():
    return Dlrm(), (torch.randn(9, 5), torch.randint(0, 20, (3, 9, 4)))


class Residual(nn.Module):
    def __init__(self, read, written, times, groups):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(groups, read), nn.GroupNorm(groups, written)
        self.c1, self.c2 = nn.Conv2d(read, written, 3, padding=1), nn.Conv2d(written, written, 3, padding=1)
        self.t = nn.Linear(times, written)
        self.s = nn.Conv2d(read, written, 1) if read != written else nn.Identity()

    def forward(self, x, time):
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(time))[:, :, None, None]
        return self.c2(F.silu(self.n2(h))) + self.s(x)


class Attention(nn.Module):
    def __init__(self, width, context, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(context, width, bias=False) for _ in range(2))
        self.o = nn.Linear(width, width)

    def forward(self, x, context):
        def apart(y):
            return y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)

        y = F.scaled_dot_product_attention(apart(self.q(x)), apart(self.k(context)), apart(self.v(context)))
        return self.o(y.transpose(1, 2).reshape(*x.shape))


class GatedGelu(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.p = nn.Linear(width, 2 * inner)

    def forward(self, x):
        value, gate = self.p(x).chunk(2, -1)
        return value * F.gelu(gate)


class Transformer(nn.Module):
    def __init__(self, width, context, heads, groups):
        super().__init__()
        self.n = nn.GroupNorm(groups, width, eps=1e-6)
        self.i, self.o = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.l1, self.l2, self.l3 = (nn.LayerNorm(width) for _ in range(3))
        self.a1, self.a2 = Attention(width, width, heads), Attention(width, context, heads)
        self.ff = nn.Sequential(GatedGelu(width, 4 * width), nn.Linear(4 * width, width))

    def forward(self, x, context):
        y = self.i(self.n(x)).flatten(2).transpose(1, 2)
        z = self.l1(y)
        y = y + self.a1(z, z)
        y = y + self.a2(self.l2(y), context)
        y = y + self.ff(self.l3(y))
        return self.o(y.transpose(1, 2).reshape(x.shape)) + x


class Unet(nn.Module):
    """Residual and transformer blocks, once down and up, as in Stable Diffusion."""

    def __init__(self, width=8, context=12, heads=2, groups=4):
        super().__init__()
        self.half = width // 2
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        w = 2 * width
        self.r1 = Residual(width, w, 4 * width, groups)
        self.r2, self.r3 = Residual(w, w, 4 * width, groups), Residual(2 * w, w, 4 * width, groups)
        self.t1, self.t2, self.t3 = (Transformer(w, context, heads, groups) for _ in range(3))
        self.down, self.up = nn.Conv2d(w, w, 3, 2, 1), nn.Conv2d(w, w, 3, padding=1)

    def forward(self, x, t, ctx):
        frequencies = torch.exp(-9.21 * torch.arange(self.half, device=x.device) / self.half)[None]
        angles = t[:, None].float() * frequencies
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1).to(x.dtype))
        x = self.t1(self.r1(x, time), ctx)
        y = self.t2(self.r2(self.down(x), time), ctx)
        y = self.up(F.interpolate(y, scale_factor=2.0, mode="nearest"))
        return self.t3(self.r3(torch.cat([x, y], 1), time), ctx)


def unet():
    return Unet(), (torch.randn(1, 8, 8, 8), torch.randint(0, 1000, (1,)), torch.randn(1, 5, 12))


# ---- export ----------------------------------------------------------------------------------------------------------

# Each with the opset of the full one; "script": by the older exporter, which traces.
SMALL = {
    "albert_opset17": (albert, 17, "script"),
    "bert_base": (bert, 20, None),
    "bert_base_f16": (bert, 20, torch.float16),
    "bert_opset13": (partial(bert, "eager"), 13, "script"),
    "convnext_tiny": (convnext, 20, None),
    "crnn_lstm": (partial(crnn, False), 20, None),
    "crnn_unrolled": (partial(crnn, True), 20, None),
    "distilbert": (distilbert, 18, None),
    "dlrm": (dlrm, 20, None),
    "efficientnet_b0": (efficientnet, 20, None),
    "gpt2": (gpt2, 20, None),
    "gpt2_opset23": (gpt2, 23, None),
    "llama_bf16": (llama, 20, torch.bfloat16),
    "llama_f16_opset23": (llama, 23, torch.float16),
    "mlp_mixer": (mixer, 20, None),
    "mobilenet_v3": (mobilenet, 20, "as it is"),
    "resnet50": (resnet, 20, None),
    "resnet50_opset11": (resnet, 11, "script"),
    "swin_t": (swin, 20, None),
    "t5_small": (t5, 20, None),
    "unet_block": (unet, 20, None),
    "unet_block_f16": (unet, 20, torch.float16),
    "vit_b16": (vit, 20, None),
    "whisper_tiny_encoder": (whisper, 20, None),
}


def exported(make, opset, how):
    torch.manual_seed(0)
    model, inputs = make()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d) and how != "script":  # statistics that do something
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    model.eval()
    if isinstance(how, torch.dtype):
        model = model.to(how)
        inputs = tuple(x.to(how) if x.is_floating_point() else x for x in inputs)
    names = getattr(model, "names", None)
    if names is None:
        names = [name for name in model.forward.__code__.co_varnames[1:] if name in ("x", "t", "ctx", "dense", "idx")]
        names = names[:len(inputs)]
    if how == "script":
        path = OUT / "exported.onnx"
        torch.onnx.export(model, inputs, path, dynamo=False, opset_version=opset, input_names=names)
        found = onnx.load(path)
        path.unlink()
        return found
    program = torch.onnx.export(model, inputs, dynamo=True, opset_version=opset, input_names=names, verbose=False,
                                optimize=False)
    if how != "as it is":
        # What torch.onnx does by default. It folds constants up to a size: what the full one has to keep, this one keeps.
        onnxscript.optimizer.optimize_ir(program.model, input_size_limit=72, output_size_limit=200)
        onnxscript.rewriter.onnx_fusions.fuse(program.model)
    return program.model_proto


def strip(model):
    """Marks weights as external, and drops documentation and metadata."""
    statistics = {name for node in model.graph.node if node.op_type == "BatchNormalization" for name in node.input[3:]}
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    for tensor in model.graph.initializer:
        elements = 1
        for extent in tensor.dims:
            elements *= extent
        if tensor.data_type not in floats or elements <= 4 or tensor.name in statistics:
            continue
        for field in ("raw_data", "float_data", "int32_data"):
            tensor.ClearField(field)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.append(onnx.StringStringEntryProto(key="location", value="weights"))
    for part in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output,
                 *model.graph.initializer):
        part.doc_string = ""
        if hasattr(part, "metadata_props"):
            part.ClearField("metadata_props")


def check_operators(name, kinds):
    """Every kind of operator that the full one has, and no other: what an exporter writes depends on extents, too."""
    full = json.loads((FULL / f"{name}.json").read_text())["ops"]
    assert set(full) == set(kinds), f"{name}: {sorted(set(full) ^ set(kinds))}"


def main():
    warnings.filterwarnings("ignore")
    only = sys.argv[1:] or list(SMALL)
    assert set(SMALL) == {path.stem for path in FULL.glob("*.onnx")}, "a model more or less"
    for name in only:
        model = exported(*SMALL[name])
        strip(model)
        data = model.SerializeToString(deterministic=True)
        (OUT / f"{name}.onnx").write_bytes(data)
        kinds = collections.Counter(node.op_type for node in model.graph.node)
        check_operators(name, kinds)
        print(f"{name}: {len(data)} bytes, {sum(kinds.values())} nodes")


if __name__ == "__main__":
    main()
