"""Files of cases, as stitch conformance differential reads them."""
import gzip
import importlib.metadata
import json


def write_file(path, implementation, packages, cases, refused=(), flushes=False, level=9):
    """`refused`: cases that the other implementation does not take, as {"name", "why"}."""
    versions = {name: importlib.metadata.version(name) for name in packages}
    document = {"implementation": implementation, "versions": versions, "flushes_subnormals": flushes, "cases": list(cases), "refused": list(refused)}
    write_document(path, document, level)


def write_document(path, document, level=9):
    path.parent.mkdir(parents=True, exist_ok=True)
    # No time and no name in the header: the same cases are the same bytes.
    with open(path, "wb") as file, gzip.GzipFile("", "wb", level, file, mtime=0) as packed:
        packed.write(json.dumps(document, separators=(",", ":")).encode())


def read_file(path):
    with gzip.open(path) as packed:
        return json.load(packed)
