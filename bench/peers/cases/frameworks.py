"""The frameworks that the cases are written for. A case file needs both names; a machine may have one of them."""
try:
    import torch
    import torch.nn.functional as F
except ImportError:  # generating HLO needs no PyTorch
    torch = F = None
import jax
import jax.numpy as jnp

__all__ = ["F", "jax", "jnp", "lowest", "torch", "wide"]


def wide(x):
    """x in at least float32, where a user computes statistics; float64 stays, so that the reference is float64."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def lowest(x):
    """The smallest finite value of x's dtype: what masked scores become."""
    return jnp.finfo(x.dtype).min
