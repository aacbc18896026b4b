"""SessionOptions and RunOptions with onnxruntime's names; a name that neither has is refused with the nearest."""

import dataclasses
import enum

from .. import _locks, _settings, errors
from .._settings import nearest
from ._errors import InvalidArgument, NotImplemented
from ._values import OrtValue


class GraphOptimizationLevel(enum.IntEnum):
    """Kept and not looked at: what Stitch fuses does not change what a model means."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


FOLDER_KEY = "session.model_external_initializers_file_folder_path"

# onnxruntime's keys (onnxruntime_session_options_config_keys.h) that a session here takes. Those in _USED change what
# it does; the others are about how onnxruntime's own kernels and arenas work, and there is nothing here for them to do.
_USED = (
    "ep.context_embed_mode",
    "ep.context_enable",
    "ep.context_file_path",
    "ep.context_model_external_initializers_file_name",
    "ep.context_node_name_prefix",
    "session.disable_cpu_ep_fallback",
    "session.load_model_format",
    FOLDER_KEY,
)
_NOTHING_HERE = (
    "ep.share_ep_contexts",
    "ep.stop_share_ep_contexts",
    "mlas.disable_kleidiai",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
    "optimization.disable_specified_optimizers",
    "optimization.enable_cast_chain_elimination",
    "optimization.enable_gelu_approximation",
    "optimization.enable_memory_optimizer",
    "optimization.memory_optimizer_config",
    "optimization.minimal_build_optimizations",
    "session.allow_released_opsets_only",
    "session.debug_layout_transformation",
    "session.disable_aot_function_inlining",
    "session.disable_double_qdq_remover",
    "session.disable_prepacking",
    "session.disable_quant_qdq",
    "session.dynamic_block_base",
    "session.enable_dq_matmulnbits_fusion",
    "session.enable_gemm_fastmath",
    "session.enable_quant_qdq_cleanup",
    "session.force_spinning_stop",
    "session.inter_op.allow_spinning",
    "session.intra_op.allow_spinning",
    "session.intra_op_thread_affinities",
    "session.qdqisint8allowed",
    "session.save_model_format",
    "session.set_denormal_as_zero",
    "session.use_device_allocator_for_initializers",
    "session.use_env_allocators",
    "session.use_memory_mapped_ort_model",
    "session.use_ort_model_bytes_directly",
    "session.use_ort_model_bytes_for_initializers",
    "session.x64quantprecision",
)
# What says nothing of the model, and would have onnxruntime write a file beside ours.
_OURS_ALONE = ("enable_profiling", "optimized_model_filepath", "profile_file_prefix")
_RUN_KEYS = (
    "disable_synchronize_execution_providers",
    "gpu_graph_id",
    "memory.enable_memory_arena_shrinkage",
)


def list_session_config_entries() -> list[str]:
    """Keys that `SessionOptions.add_session_config_entry` takes."""
    return sorted([*_USED, *_NOTHING_HERE])


class _Entries:
    """What both kinds of options have: attributes of fixed names, and entries of fixed keys."""

    _keys: tuple = ()
    _whose = ""
    _entries: dict[str, str]

    def __init__(self) -> None:
        object.__setattr__(self, "_entries", {})

    def __setattr__(self, name, value):
        names = [each for each in type(self).__annotations__ if not each.startswith("_")]
        if name not in names:
            raise AttributeError(f"{self._whose} has no attribute '{name}'{nearest(name, names)}")
        object.__setattr__(self, name, value)

    def _add(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"{self._whose}: keys and values are text, not {key!r}: {value!r}")
        if key not in self._keys:
            raise InvalidArgument(f"{self._whose} has no configuration key '{key}'{nearest(key, self._keys)}")
        self._entries[key] = value

    def _get(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"{self._whose} does not have configuration with key: {key}")
        return self._entries[key]


class SessionOptions(_Entries):
    """As onnxruntime's. What is about its threads, arenas and passes is kept and changes nothing here; with
    use_deterministic_compute equal inputs give equal bits."""

    _whose = "SessionOptions"
    _extents: dict[str, int]
    _initializers: dict
    _keys = (*_USED, *_NOTHING_HERE)
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    log_severity_level: int = 2
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_extents", {})
        object.__setattr__(self, "_initializers", {})

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Errors: InvalidArgument for a key that is none, with the nearest."""
        self._add(key, value)

    def get_session_config_entry(self, key: str) -> str:
        return self._get(key)

    def add_free_dimension_override_by_name(self, name: str, extent: int) -> None:
        """Fixes an open dimension, so that the program is made with the session and not by its first run."""
        if extent < 0:
            raise InvalidArgument(f"dimension '{name}': {extent} is no extent")
        self._extents[name] = int(extent)

    def add_free_dimension_override_by_denotation(self, denotation: str, extent: int) -> None:
        raise NotImplemented("dimensions by denotation: use add_free_dimension_override_by_name")

    def add_initializer(self, name: str, value) -> None:
        """An initializer's contents in the place of what the model has, or of a file beside it."""
        self._initializers[name] = value.numpy() if isinstance(value, OrtValue) else value

    def add_external_initializers(self, names, values) -> None:
        if len(names) != len(values):
            raise InvalidArgument(f"{len(names)} names and {len(values)} values of initializers")
        for name, value in zip(names, values, strict=True):
            self.add_initializer(name, value)

    def for_onnxruntime(self, onnxruntime):
        """The same as onnxruntime's own SessionOptions, for a session of its in the place of ours: attributes, entries
        and fixed dimensions; initializers go another way (`_initializers`)."""
        theirs = onnxruntime.SessionOptions()
        for name in type(self).__annotations__:
            value = getattr(self, name)
            if name.startswith("_") or name in _OURS_ALONE or not hasattr(theirs, name):
                continue
            is_word = isinstance(value, enum.Enum)
            setattr(theirs, name, getattr(getattr(onnxruntime, type(value).__name__), value.name) if is_word else value)
        for key, value in self._entries.items():
            if not key.startswith("ep.context_"):
                theirs.add_session_config_entry(key, value)
        for name, extent in self._extents.items():
            theirs.add_free_dimension_override_by_name(name, extent)
        return theirs

    def register_custom_ops_library(self, path: str) -> None:
        raise NotImplemented(f"operators of other libraries ({path}): nobody here computes them")


class RunOptions(_Entries):
    """As onnxruntime's; `terminate` is looked at when a run begins."""

    _whose = "RunOptions"
    _keys = _RUN_KEYS
    log_severity_level: int = 2
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    training_mode: bool = False

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Errors: InvalidArgument for a key that is none, with the nearest."""
        self._add(key, value)

    def get_run_config_entry(self, key: str) -> str:
        return self._get(key)


@dataclasses.dataclass(frozen=True)
class ProviderOptions:
    """Options of StitchExecutionProvider; each field is one."""

    device: str = "emulated"
    """Where kernels run: "emulated", on the host's memory; "cuda": on a GPU, with copies to and from it."""
    device_id: int = 0
    """Of several GPUs."""
    user_compute_stream: int = 0
    """With "cuda": the handle of the CUstream that runs are enqueued on (also its digits); 0: the default one."""
    deadline_ms: int = 60_000
    """How long a session, or the first run with new shapes, waits for plans."""
    effort: str = "quick"
    """What the server does in the background for better plans, which the next session has: "none" (nothing), "quick" (it
    tunes what it had to predict), "full" (it measures a hundred more candidates of every fragment, where it measures)."""
    improve: bool = True
    """False: as effort "none"."""
    budget_seconds: int = 0
    """How long the server may tune what a program was made of; 0: for as long as it takes."""
    deterministic: bool = False
    """Equal inputs give equal bits; so they do with SessionOptions.use_deterministic_compute."""
    batch_invariant: bool = False
    """A row's bits do not depend on how many rows there are."""
    precision: str = "default"
    """"eager": every operator's result is rounded to its type, as onnxruntime's kernels round it; "default": values stay
    wider between operators."""
    server: str | None = None
    """Address of a stitchd; by default $STITCH_SERVER, else the user's own, started where none answers."""
    programs: int = 16
    """How many programs a session keeps, one per set of shapes; more than that and the oldest is made anew."""
    max_workspace_bytes: int | None = None
    """A program that needs more memory beside its inputs and results (arena and workspaces) is refused."""
    lock: str | None = None
    """A file of `InferenceSession.write_lock` (or `stitch lock`): programs are those that it names, others are refused."""
    disable: bool = False
    """onnxruntime runs the model."""

    @property
    def tuned(self) -> str:
        """The effort, all said of it."""
        return self.effort if self.improve and self.lock is None else "none"


_CHOICES = {"effort": _settings.EFFORTS, "precision": _settings.PRECISIONS}


def list_provider_options() -> list[str]:
    """Names that `provider_options` may have."""
    return [field.name for field in dataclasses.fields(ProviderOptions)]


def provider_options(given: dict) -> ProviderOptions:
    """Values may be text, as onnxruntime has them; what is not given is the environment's, the user's file's, or the
    default. Errors: InvalidArgument, naming the nearest option, or a lock's line that cannot be read."""
    names = list_provider_options()
    try:
        values = _settings.given(ProviderOptions, _CHOICES, "onnx")
        for name, value in given.items():
            if name not in names:
                raise InvalidArgument(f"StitchExecutionProvider has no option '{name}'{nearest(name, names)}")
            values[name] = _settings.checked(ProviderOptions, _CHOICES, name, value, f"option '{name}'")
        if values.get("lock") is not None:
            values["lock"] = _locks.read(values["lock"])
    except InvalidArgument:
        raise
    except (ValueError, errors.CompatibilityError) as error:
        raise InvalidArgument(str(error)) from None
    if values.get("device", "emulated") not in ("emulated", "cuda"):
        raise InvalidArgument(f"option 'device': '{values['device']}' is neither emulated nor cuda")
    return ProviderOptions(**values)
