"""Generates the Python stubs beside the .proto files, or with --check proves that they are fresh.

Run from anywhere: `.venv/bin/python protos/generate.py [--check]`. The stubs are committed and never edited.
"""

import argparse
import filecmp
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc  # pyright: ignore[reportMissingTypeStubs]

PROTOS = Path(__file__).resolve().parent
ROOT = PROTOS.parent


def generate(out: Path) -> None:
    """Writes `*_pb2.py`, `*_pb2_grpc.py` and their `.pyi` for every proto below `protos/` into `out`."""
    well_known = Path(protoc.__file__).resolve().parent / "_proto"
    scripts = Path(sys.executable).parent
    sources = sorted(str(path.relative_to(ROOT)) for path in PROTOS.rglob("*.proto"))
    code = protoc.main(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        [
            "protoc",
            f"--proto_path={ROOT}",
            f"--proto_path={well_known}",
            *(
                f"--plugin=protoc-gen-{name}={scripts / f'protoc-gen-{name}'}"
                for name in ("mypy", "mypy_grpc")
            ),
            f"--python_out={out}",
            f"--grpc_python_out={out}",
            f"--mypy_out={out}",
            f"--mypy_grpc_out={out}",
            *sources,
        ]
    )
    if code != 0:
        raise SystemExit(f"protoc failed with exit code {code}")


def stale(fresh: Path) -> list[str]:
    """The generated files that differ from the committed ones, or exist on one side only."""
    made = {path.relative_to(fresh) for path in fresh.rglob("*_pb2*")}
    kept = {path.relative_to(ROOT) for path in PROTOS.rglob("*_pb2*.py*") if "__pycache__" not in path.parts}
    differing = {p for p in made & kept if not filecmp.cmp(fresh / p, ROOT / p, shallow=False)}
    return sorted(str(path) for path in (made ^ kept) | differing)


def main() -> int:
    """Write the stubs, or with ``--check`` say whether they are fresh; answers the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the committed stubs are not fresh")
    if not parser.parse_args().check:
        generate(ROOT)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        old = stale(Path(folder))
    if old:
        sys.stderr.write("not fresh, run `make gen`: " + ", ".join(old) + "\n")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
