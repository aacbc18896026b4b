"""Names that nothing binds: in Python they are found when their line runs, which for what serves a fault may be never."""

import builtins
import pathlib
import symtable

import pytest

import stitch

_OF_MODULES = {"__file__", "__name__", "__package__", "__doc__"}


def tables(of: symtable.SymbolTable) -> list[symtable.SymbolTable]:
    return [of, *(inner for child in of.get_children() for inner in tables(child))]


def unbound(source: str, name: str) -> list[str]:
    """Names that a module's functions look for outside of themselves, and that neither it nor Python has."""
    every = tables(symtable.symtable(source, name, "exec"))
    bound = {*dir(builtins), *_OF_MODULES}
    for table in every:
        for symbol in table.get_symbols():
            binds = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            if binds and (table is every[0] or symbol.is_declared_global()):
                bound.add(symbol.get_name())
    wanted = [symbol for table in every for symbol in table.get_symbols() if symbol.is_referenced() and symbol.is_global()]
    return sorted({symbol.get_name() for symbol in wanted} - bound)


def test_every_name_of_the_package_is_bound():
    modules = sorted(pathlib.Path(stitch.__file__).parent.rglob("*.py"))
    assert len(modules) > 40
    found = {str(file): unbound(file.read_text(encoding="utf-8"), str(file)) for file in modules}
    assert not any(found.values()), {file: names for file, names in found.items() if names}


@pytest.mark.parametrize(
    "source, names",
    [
        ("import os\ndef f(x): return os.sep + x", []),
        ("def f(): return SECONDS", ["SECONDS"]),
        ("def f():\n    global late\n    late = 1\ndef g(): return late", []),
        ("class A:\n    inner = 1\n    def f(self): return inner", ["inner"]),
        ("def f():\n    x = 1\n    return [x + y for y in range(x)]", []),
    ],
)
def test_what_is_not_bound_is_seen(source, names):
    assert unbound(source, "module") == names
