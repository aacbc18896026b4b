"""Small models of flax, and optimizers of optax, for bench/jax/run.py. Each model is a function that gives its
definition, its parameters (and other state) and one batch of inputs."""

import jax
import jax.numpy as jnp
import numpy
import optax
from flax import nnx


def batch(*shapes) -> list:
    random = numpy.random.default_rng(11)
    return [jnp.asarray(random.standard_normal(shape, "float32")) for shape in shapes]


def tokens(shape, most: int):
    return jnp.asarray(numpy.random.default_rng(12).integers(0, most, shape), "int32")


class Perceptron(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(24, 48, rngs=rngs)
        self.norm = nnx.LayerNorm(48, rngs=rngs)
        self.last = nnx.Linear(48, 10, rngs=rngs)

    def __call__(self, x):
        return self.last(self.norm(nnx.gelu(self.first(x))))


class Block(nnx.Module):
    def __init__(self, width, heads, rngs, norm=nnx.LayerNorm, act=nnx.gelu, causal=False):
        self.first, self.second = norm(width, rngs=rngs), norm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(width, 4 * width, rngs=rngs), nnx.Linear(4 * width, width, rngs=rngs)
        self.act, self.causal = act, causal

    def __call__(self, x):
        mask = nnx.make_causal_mask(x[..., 0]) if self.causal else None
        x = x + self.attention(self.first(x), mask=mask)
        return x + self.down(self.act(self.up(self.second(x))))


class Encoder(nnx.Module):
    """BERT's shape."""

    def __init__(self, rngs):
        self.table, self.places = nnx.Embed(100, 32, rngs=rngs), nnx.Embed(16, 32, rngs=rngs)
        self.blocks = nnx.List([Block(32, 4, rngs) for _ in range(2)])
        self.head = nnx.Linear(32, 5, rngs=rngs)

    def __call__(self, ids):
        x = self.table(ids) + self.places(jnp.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


class Decoder(nnx.Module):
    """GPT's shape, with RMSNorm, SiLU and a causal mask."""

    def __init__(self, rngs):
        self.table = nnx.Embed(100, 32, rngs=rngs)
        self.blocks = nnx.List([Block(32, 4, rngs, nnx.RMSNorm, nnx.silu, causal=True) for _ in range(2)])
        self.norm = nnx.RMSNorm(32, rngs=rngs)

    def __call__(self, ids):
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return self.table.attend(self.norm(x))


class Convolutions(nnx.Module):
    """A residual block with group normalisation, and a pool."""

    def __init__(self, rngs):
        self.stem = nnx.Conv(3, 16, (3, 3), rngs=rngs)
        self.first, self.second = nnx.Conv(16, 16, (3, 3), rngs=rngs), nnx.Conv(16, 16, (3, 3), rngs=rngs)
        self.norms = nnx.List([nnx.GroupNorm(16, 4, rngs=rngs) for _ in range(2)])
        self.head = nnx.Linear(16, 10, rngs=rngs)

    def __call__(self, x):
        x = nnx.max_pool(nnx.relu(self.stem(x)), (2, 2), (2, 2))
        y = self.second(nnx.relu(self.norms[0](self.first(x))))
        return self.head(nnx.relu(x + self.norms[1](y)).mean((1, 2)))


class Recurrent(nnx.Module):
    """A GRU over a sequence, by lax.scan."""

    def __init__(self, rngs):
        self.cell = nnx.GRUCell(8, 16, rngs=rngs)
        self.head = nnx.Linear(16, 4, rngs=rngs)

    def __call__(self, x):
        def turn(carry, x):
            return self.cell(carry, x)

        carry = jnp.zeros((x.shape[0], 16), x.dtype)
        carry, _ = jax.lax.scan(turn, carry, x.swapaxes(0, 1))
        return self.head(carry)


class Patches(nnx.Module):
    """A vision transformer's shape."""

    def __init__(self, rngs):
        self.stem = nnx.Conv(3, 32, (4, 4), strides=(4, 4), padding="VALID", rngs=rngs)
        self.blocks = nnx.List([Block(32, 4, rngs) for _ in range(2)])
        self.norm = nnx.LayerNorm(32, rngs=rngs)
        self.head = nnx.Linear(32, 10, rngs=rngs)

    def __call__(self, x):
        x = self.stem(x).reshape(x.shape[0], -1, 32)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


MODELS = {
    "perceptron": (Perceptron, lambda: batch((16, 24))),
    "encoder (BERT)": (Encoder, lambda: [tokens((4, 16), 100)]),
    "decoder (GPT)": (Decoder, lambda: [tokens((4, 16), 100)]),
    "convolutions (ResNet)": (Convolutions, lambda: batch((2, 16, 16, 3))),
    "recurrent (GRU)": (Recurrent, lambda: batch((4, 6, 8))),
    "patches (ViT)": (Patches, lambda: batch((2, 16, 16, 3))),
}

OPTIMIZERS = {
    "sgd, momentum": lambda: optax.sgd(1e-2, momentum=0.9, nesterov=True),
    "adam": lambda: optax.adam(1e-3),
    "adamw, clipped": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)),
    "lion": lambda: optax.lion(1e-3),
    "adafactor": lambda: optax.adafactor(1e-3, min_dim_size_to_factor=8),
    "rmsprop": lambda: optax.rmsprop(1e-3),
    "adagrad": lambda: optax.adagrad(1e-2),
    "lamb": lambda: optax.lamb(1e-3),
}
