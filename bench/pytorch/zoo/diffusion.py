"""Models that remove noise, from diffusers."""

import diffusers
import torch

from .model import Model, image


def steps() -> torch.Tensor:
    return torch.tensor([3, 40])


def unet():
    model = diffusers.UNet2DModel(
        sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=4, attention_head_dim=8,
    )  # fmt: skip
    return model, {"sample": image(8), "timestep": steps()}


def conditional_unet():
    model = diffusers.UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16, norm_num_groups=4, attention_head_dim=8,
    )  # fmt: skip
    return model, {"sample": image(8, 4), "timestep": steps(), "encoder_hidden_states": torch.randn(2, 4, 16)}


def dit():
    model = diffusers.DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2, sample_size=8,
        patch_size=2, num_embeds_ada_norm=100, norm_num_groups=4,
    )  # fmt: skip
    return model, {"hidden_states": image(8, 4), "timestep": steps(), "class_labels": torch.tensor([1, 7])}


def autoencoder():
    model = diffusers.AutoencoderKL(
        in_channels=3, out_channels=3, block_out_channels=(8, 16), layers_per_block=1, latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=4,
        sample_size=16,
    )  # fmt: skip
    return model, {"sample": image()}


def flux():
    model = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=8, num_attention_heads=2,
        joint_attention_dim=16, pooled_projection_dim=8, axes_dims_rope=(2, 2, 4),
    )  # fmt: skip
    inputs = {
        "hidden_states": torch.randn(2, 6, 4), "encoder_hidden_states": torch.randn(2, 4, 16),
        "pooled_projections": torch.randn(2, 8), "timestep": torch.tensor([0.3, 0.7]),
        "img_ids": torch.randn(6, 3), "txt_ids": torch.zeros(4, 3),
    }  # fmt: skip
    return model, inputs


MODELS = {
    "U-Net": Model(unet, "AdamW"),
    "Stable Diffusion's U-Net": Model(conditional_unet),
    "DiT": Model(dit, "AdamW"),
    "autoencoder": Model(autoencoder),
    "FLUX": Model(flux),
}
