"""What a release has to pass: `python -m tests.release` builds, installs and runs it everywhere.

It builds sdist and wheel, and installs the wheel in a clean environment of each Python that is
there, with the newest versions of what it depends on, and on the oldest Python with the lowest that
`pyproject.toml` allows. In each, README's first example has to give its cycles. The newest one's
packages are listed as an SBOM in CycloneDX's format. Needs the extra `release`.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXAMPLE = "examples/matmul.toml"
CYCLES = "matmul_f32 on pulp, compiled engine: 57,461 cycles"
LARGEST = 10 << 20  # bytes of a wheel
IN_WHEEL = (
    "pulpsim/py.typed",
    "pulpsim/__init__.pyi",
    "configs/pulp.toml",
    "firmware/c/pulp.c",
    "data/share/pulpsim/examples/matmul.toml",
    "dist-info/licenses/LICENSE",
)


def main() -> int:
    """Build, check, install, run; the exit status says whether all of it succeeded."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder of the files")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only these Pythons")
    chosen = parser.parse_args()
    wheel = build(chosen.output)
    missing = mistakes(wheel)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", *missing, sep="\n    ")
    failed = bool(missing)
    pythons = [python for python in chosen.python or PYTHONS if has(python)]
    for python in sorted({*(chosen.python or PYTHONS)} - {*pythons}):
        print(f"Python {python}: not on this machine, not tried")
    for python, resolution in [
        *((python, "highest") for python in pythons),
        *((python, "lowest-direct") for python in pythons[:1]),
    ]:
        sbom = chosen.output / "pulpsim.cdx.json" if python == pythons[-1] else None
        problem = tried(wheel, python, resolution, sbom)
        print(f"Python {python}, {resolution}: {problem or 'ok'}", flush=True)
        failed |= problem is not None
    return int(failed)


def build(folder: Path) -> Path:
    """Build sdist and wheel from the checkout and return the wheel's path."""
    shutil.rmtree(folder, ignore_errors=True)
    run(["uv", "build", "--quiet", "--out-dir", folder, ROOT])
    (wheel,) = folder.glob("*.whl")
    return wheel


def mistakes(wheel: Path) -> list[str]:
    """What a wheel lacks, a line each."""
    names = zipfile.ZipFile(wheel).namelist()
    lacks = [f"has no {end}" for end in IN_WHEEL if not any(name.endswith(end) for name in names)]
    if wheel.stat().st_size > LARGEST:
        lacks.append(f"is larger than {LARGEST >> 20} MB")
    return lacks


def has(python: str) -> bool:
    """Is there an interpreter of this version?"""
    found = subprocess.run(
        ["uv", "python", "find", "--no-python-downloads", python], capture_output=True
    )
    return found.returncode == 0


def tried(wheel: Path, python: str, resolution: str, sbom: Path | None) -> str | None:
    """Run README's first example in a clean environment.

    python        version, "3.12"
    resolution    "highest" or "lowest-direct": which versions of the dependencies
    sbom          where to list what was installed, in CycloneDX's format

    returns       what went wrong, None if nothing did
    """
    with tempfile.TemporaryDirectory(prefix="pulpsim-release-") as name:
        folder = Path(name)
        try:
            run(["uv", "venv", "--quiet", "--python", python, folder / "venv"])
            interpreter = folder / "venv/bin/python"
            install: list[str | Path] = ["uv", "pip", "install", "--quiet", "--python", interpreter]
            run([*install, "--resolution", resolution, wheel])
            example = folder / "venv/share/pulpsim" / EXAMPLE
            printed = run([folder / "venv/bin/pulpsim", "run", example], cwd=folder)[1]
            if sbom:
                run(["cyclonedx-py", "environment", interpreter, "--output-file", sbom])
        except subprocess.CalledProcessError as error:
            return f"{error.cmd[0]} exits with {error.returncode}: {error.stderr.strip()[-2000:]}"
    return None if CYCLES in printed else f"{EXAMPLE} reports {printed!r}"


def run(command: Sequence[str | Path], cwd: Path = ROOT) -> tuple[str, str]:
    """Standard output and error of a command.

    raises    CalledProcessError if it fails
    """
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


if __name__ == "__main__":
    sys.exit(main())
