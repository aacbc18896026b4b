"""Models of images, from torchvision, timm and transformers."""

import functools

import timm.models
import torchvision
from timm.models.resnet import BasicBlock, Bottleneck, ResNet
from torchvision.models.convnext import CNBlockConfig, ConvNeXt
from torchvision.models.efficientnet import EfficientNet, MBConvConfig
from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3
from torchvision.models.regnet import BlockParams

from .language import made
from .model import Model, image, tokens


def pictures(make, size: int = 16, **settings):
    return make(**settings), {"x": image(size)}


def efficientnet():
    blocks = [MBConvConfig(1, 3, 1, 8, 8, 1, 1.0, 1.0), MBConvConfig(4, 3, 2, 8, 16, 1, 1.0, 1.0)]
    return EfficientNet(blocks, dropout=0.0, stochastic_depth_prob=0.0, num_classes=8, last_channel=32), {"x": image()}


def mobilenet_v3():
    block = functools.partial(InvertedResidualConfig, dilation=1, width_mult=1.0)
    blocks = [block(8, 3, 16, 8, True, "RE", 2), block(8, 3, 24, 16, True, "HS", 1)]
    return MobileNetV3(blocks, last_channel=32, num_classes=8, dropout=0.0), {"x": image()}


def convnext():
    blocks = [CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)]
    return ConvNeXt(blocks, stochastic_depth_prob=0.0, num_classes=8), {"x": image()}


def swin():
    make = torchvision.models.SwinTransformer
    return pictures(
        make, 16, patch_size=[2, 2], embed_dim=8, depths=[2, 2], num_heads=[1, 2], window_size=[4, 4],
        stochastic_depth_prob=0.0, num_classes=8,
    )  # fmt: skip


def clip():
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return made(
        "CLIPConfig", "CLIPModel", lambda: {"input_ids": tokens(), "pixel_values": image()},
        text_config={**sizes, "vocab_size": 64, "max_position_embeddings": 16, "eos_token_id": 2},
        vision_config={**sizes, "image_size": 16, "patch_size": 8}, projection_dim=8,
    )  # fmt: skip


def segformer():
    return made(
        "SegformerConfig", "SegformerForSemanticSegmentation", lambda: {"pixel_values": image(32)},
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=4, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, classifier_dropout_prob=0.0, drop_path_rate=0.0,
    )  # fmt: skip


vit = functools.partial(
    made, "ViTConfig", "ViTModel", lambda: {"pixel_values": image()},
    hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=8,
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip
resnet = functools.partial(
    pictures, ResNet, block=BasicBlock, layers=(1, 1, 1, 1), channels=(8, 8, 16, 16), stem_width=8, num_classes=8
)
resnext = functools.partial(
    pictures, ResNet, block=Bottleneck, layers=(1, 1, 1, 1), channels=(4, 4, 8, 8), stem_width=8, cardinality=2, base_width=32,
    num_classes=8,
)  # fmt: skip
regnet = functools.partial(
    pictures, torchvision.models.RegNet, block_params=BlockParams([1, 1], [8, 16], [4, 8], [1.0, 1.0], [2, 2], 0.25),
    num_classes=8, stem_width=8,
)  # fmt: skip
densenet = functools.partial(
    pictures, torchvision.models.DenseNet, 32, growth_rate=4, block_config=(2, 2), num_init_features=8, bn_size=2,
    num_classes=8,
)  # fmt: skip
shufflenet = functools.partial(
    pictures, torchvision.models.ShuffleNetV2, 32, stages_repeats=[1, 1, 1],
    stages_out_channels=[8, 16, 32, 64, 64], num_classes=8,
)  # fmt: skip
mixer = functools.partial(
    pictures, timm.models.mlp_mixer.MlpMixer, img_size=16, patch_size=8, num_blocks=2, embed_dim=16, num_classes=8
)
deit = functools.partial(
    pictures, timm.models.deit.VisionTransformerDistilled, img_size=16, patch_size=8, embed_dim=16, depth=1,
    num_heads=2, num_classes=8,
)  # fmt: skip


MODELS = {
    "ViT": Model(vit, "AdamW"),
    "DeiT": Model(deit),
    "Swin": Model(swin, "AdamW"),
    "ConvNeXt": Model(convnext, "Lion"),
    "ResNet": Model(resnet, "SGD"),
    "ResNeXt": Model(resnext),
    "DenseNet": Model(densenet),
    "EfficientNet": Model(efficientnet, "RMSprop"),
    "MobileNetV3": Model(mobilenet_v3, "SGD"),
    "ShuffleNetV2": Model(shufflenet),
    "RegNet": Model(regnet),
    "MLP-Mixer": Model(mixer, "Muon"),
    "CLIP": Model(clip, "AdamW"),
    "SegFormer": Model(segformer),
}
