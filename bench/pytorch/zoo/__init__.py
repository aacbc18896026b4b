"""Small models of PyTorch programs: real code from PyPI with random weights, at sizes that an emulated GPU can run."""

from . import basic, diffusion, language, sequence, vision
from .model import Model

MODELS: dict[str, Model] = {
    **basic.MODELS,
    **language.MODELS,
    **sequence.MODELS,
    **vision.MODELS,
    **diffusion.MODELS,
}
