"""A case of the matmul class: a case of bench/peers, with the ways in which libraries are asked for the same.

A way is a function of PyTorch that calls a library by name and has torch.compile make what stands around the call:

    ways={"library": Way(lambda compiled: lambda x, w, b: compiled(norm)(F.linear(x, w, b)))}

`compiled` is torch.compile in its default mode. `arrange` is done once, before anything is timed: weights that a user
would have packed or laid out as the library wants them.
"""
import dataclasses
import typing

from cases.case import Case


@dataclasses.dataclass(frozen=True)
class Way:
    """`make(compiled)`: a function of the case's inputs, or of what `arrange` makes of them. `on_gpu`: it has no kernel
    for a CPU."""
    make: typing.Callable
    arrange: typing.Callable | None = None
    on_gpu: bool = False


# Ways that need a package of their own, by the module that is imported.
PACKAGES = {"flash2": "flash_attn", "flash3": "flash_attn_interface"}


@dataclasses.dataclass(frozen=True)
class RivalCase(Case):
    """kind      a table of the report: all cases of a family, but "plain", whose goal is another one
    ways      by the rival's name, beside what every case has (eager, compile, autotune, xla)
    ours      options of `stitch run` for this case
    tf32      products of f32 may be TF32, on all sides
    roundoff  of what operands are rounded to, where that is more than the results' dtype shows
    """
    ways: dict = dataclasses.field(default_factory=dict)
    ours: tuple = ()
    tf32: bool = False
    roundoff: float = 0.0

    def tolerances(self, checked=False):
        more = 3 * self.roundoff * self.roundings
        return [allowed + more for allowed in super().tolerances(checked)]
