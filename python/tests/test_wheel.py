"""What `pip install ./python` builds is what it installs: the one is said in pyproject.toml, the other to CMake."""
import pathlib
import re
import tomllib

FOLDER = pathlib.Path(__file__).resolve().parents[1]


def test_every_target_of_the_wheel_is_built():
    built = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["scikit-build"]["build"]["targets"]
    installs = re.findall(r"install\(TARGETS ([^)]*)\)", (FOLDER / "CMakeLists.txt").read_text(encoding="utf-8"))
    assert len(installs) >= 3
    for arguments in installs:
        words = arguments.split()
        kind = next(i for i, word in enumerate(words) if word in ("LIBRARY", "RUNTIME"))
        assert set(words[:kind]) <= set(built), arguments
