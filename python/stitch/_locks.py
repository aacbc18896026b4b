"""Locks of programs: the option `lock` of front ends whose pieces are programs, and what their `write_lock` writes.

The text is that of `stitch lock` and of `Program.lock`, of as many programs as there are.
"""

import contextlib
import dataclasses
import os
import typing

from . import _native, _plan, _program, errors

_FIRST = "stitch-lock 1\n"


@dataclasses.dataclass(frozen=True)
class Lock:
    """A file as it was when it was read."""

    path: str
    text: str

    def check(self, program: typing.Any) -> None:
        """Errors: ConstraintError where a `Program` is not what the lock says, with the file and the line that differs."""
        with self.named():
            program._native.check_lock(self.text)

    @contextlib.contextmanager
    def named(self) -> typing.Iterator[None]:
        """Has the error of a plan that is locked and that the server does not have name the file, too."""
        try:
            yield
        except errors.ConstraintError as error:
            raise errors.ConstraintError(f"{self.path}: {error}") from error


def make(lock: Lock | None, fragment: typing.Any, **settings: typing.Any) -> bytes:
    """`_program.make` of what a lock names, if there is one; its errors, and ConstraintError with the file where the server
    does not have that."""
    if lock is None:
        return _program.make(fragment, **settings)
    with lock.named():
        return _program.make(fragment, lock=lock.text, **settings)


def read_text(path: str) -> str:
    """Errors: InvalidArgument (it cannot be opened), ParseError (no text)."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise errors.InvalidArgument(f"lock {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise errors.ParseError(f"lock {path}: no text ({error})") from error


def read(path: str | os.PathLike[str]) -> Lock:
    """Errors: those of `read_text`; ParseError and CompatibilityError, with file and line."""
    lock = Lock(os.fspath(path), read_text(os.fspath(path)))
    try:
        _native.programs_locked(lock.text)
    except errors.Error as error:
        raise type(error)(f"lock {lock.path}, {error}") from error
    return lock


def write(path: str | os.PathLike[str], locks: typing.Iterable[str]) -> int:
    """Writes the locks of programs (`Program.lock`) as one, sorted, equal ones once: how many there are."""
    programs = sorted({lock.removeprefix(_FIRST) for lock in locks})
    _plan._write(path, "".join([_FIRST, *programs]).encode())
    return len(programs)
