"""What can go wrong, by kind; every message says what, where and what to do."""


_CODES = (
    "ok", "invalid_argument", "parse", "unsupported", "not_found", "already_exists", "io", "corrupt", "version_mismatch",
    "resource_exhausted", "constraint", "compile", "timeout", "runtime", "correctness", "unavailable", "cancelled", "internal",
)  # fmt: skip


class Error(RuntimeError):
    """Base of all errors of Stitch. `kind` is the name of the C interface's code ("unavailable")."""

    kind = "internal"

    @property
    def code(self) -> int:
        """The C interface's (stitch_code in client/stitch.h)."""
        return _CODES.index(self.kind if self.kind in _CODES else "internal")


class InvalidArgument(Error, ValueError):
    """The caller's input is wrong: an array of another shape, an option out of range."""

    kind = "invalid_argument"


class ParseError(Error, ValueError):
    """Text or bytes that cannot be read."""

    kind = "parse"


class Unsupported(Error, NotImplementedError):
    """Well-formed, but nothing here handles it."""

    kind = "unsupported"


class PlanMissing(Error, LookupError):
    """There is no plan, or nothing else of that name."""

    kind = "not_found"


class CompatibilityError(Error):
    """Written by another version, or made for another device."""

    kind = "version_mismatch"


class ConstraintError(Error):
    """What was asked for cannot be had: a package for other GPUs, a program that is not what its lock says."""

    kind = "constraint"


class CorruptError(Error):
    """Stored data that do not match their checksum."""

    kind = "corrupt"


class ResourceExhausted(Error):
    """A limit: memory, requests, sizes."""

    kind = "resource_exhausted"


class Timeout(Error, TimeoutError):
    """A deadline passed; the server may have a plan later."""

    kind = "timeout"


class KernelError(Error):
    """A kernel faulted while it ran, or was found to be wrong."""

    kind = "runtime"


class Unavailable(Error, ConnectionError):
    """No server, no driver, no device."""

    kind = "unavailable"


class ServerUnavailable(Unavailable):
    """No server answers, or none may be asked."""


class DeviceUnavailable(Unavailable):
    """The device cannot be opened: no driver, no such GPU. A server may be there all the same."""


_MISSING = {"server": ServerUnavailable, "device": DeviceUnavailable}
_CLASSES = {
    error.kind: error
    for error in (
        InvalidArgument,
        ParseError,
        Unsupported,
        PlanMissing,
        CompatibilityError,
        ConstraintError,
        CorruptError,
        ResourceExhausted,
        Timeout,
        KernelError,
        Unavailable,
    )
}


def of_kind(kind: str, message: str, missing: str = "") -> Error:
    """The error of a kind; kinds have their names in base/result.h, with spaces or underscores. `missing`: what an
    unavailable one is about, "server" or "device"; where that is not known, nothing."""
    kind = kind.replace(" ", "_").replace("-", "_")
    of = _CLASSES.get(kind, Error)
    error = (_MISSING.get(missing, of) if of is Unavailable else of)(message)
    error.kind = kind
    return error
