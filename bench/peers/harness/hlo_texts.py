"""HLO texts of cases, before XLA's optimisation: what JAX's lowering for CUDA prints, without metadata (no GPU is needed).
A text over 24 KiB is compressed."""
import gzip
import re

PLAIN_AT_MOST = 24 * 1024


def hlo_text(case, checked=False):
    import jax
    from cases import numpy_dtype, tree
    specs = tree(case.input_tree(checked), lambda leaf: jax.ShapeDtypeStruct(leaf.shape, numpy_dtype(leaf.dtype)))
    lowered = jax.jit(case.jax_function()).trace(*specs).lower(lowering_platforms=("cuda",))
    text = lowered.compiler_ir(dialect="hlo").as_hlo_text()
    text = re.sub(r", metadata=\{[^{}]*\}", "", text)
    return re.sub(r"^HloModule [^,]*", f"HloModule {case.name}", text, count=1)


def write(folder, case, text):
    plain, packed = (folder / (case.name + suffix) for suffix in (".hlo.txt", ".hlo.txt.gz"))
    plain.parent.mkdir(exist_ok=True)
    plain.unlink(missing_ok=True)
    packed.unlink(missing_ok=True)
    if len(text) <= PLAIN_AT_MOST:
        plain.write_text(text)
        return
    with open(packed, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as stream:
        stream.write(text.encode())


def write_all(folder, table, part):
    """Those of the chosen cases; files of cases that are gone are removed."""
    for case in table.chosen(part):
        text = hlo_text(case)
        write(folder, case, text)
        print(f"{len(text):8}  {case.name}")
    known = {case.name for case in table.CASES}
    for path in folder.iterdir():
        if path.name.split(".hlo.txt")[0] not in known:
            path.unlink()


def shape_text(leaf):
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"


def inputs_text(case):
    """Inputs in short: a list of tensors by their number."""
    from cases import leaves
    parts = []
    for entry in case.input_tree():
        listed = leaves([entry])
        parts.append(shape_text(entry) if not isinstance(entry, list) else f"{len(listed)} × {listed[0].dtype}")
    return ", ".join(parts)


def write_table(readme, lines):
    """A README's table of cases."""
    before, marker, rest = readme.read_text().partition("<!-- cases -->\n")
    after = rest.partition("<!-- end of cases -->")[2]
    if not marker:
        raise SystemExit(f"{readme} has no place for the table of cases")
    readme.write_text(before + marker + "\n" + "\n".join(lines) + "\n\n<!-- end of cases -->" + after)
