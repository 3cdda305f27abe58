"""Damaged files of every format for the command line.

    python -m tests.fuzz [FORMAT ...] [--part 0.1] [--seed 1] [--only NUMBER] [--keep FOLDER]

Each file must be refused with a sentence for each mistake and exit status 2, or be used, in two
seconds of processor time and 512 MB. Prints a line for each format, and what is wrong; the exit
status is 1 if anything is. --only repeats a case by its number, --keep leaves the files that
failed in a folder.
"""

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.campaign import outcomes, summary
from tests.fuzz.formats import FORMATS, made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", choices=[[], *FORMATS], metavar="FORMAT")
    parser.add_argument("--part", type=float, default=1.0, help="of the whole campaign")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="NUMBER")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    wrong = 0
    with TemporaryDirectory() as folder:
        samples = Path(folder)
        for name in given.formats or FORMATS:
            format = FORMATS[name]
            format.make_samples(samples)
            numbers = range(round(format.count * given.part))
            if given.only is not None:
                numbers = range(given.only, given.only + 1)
            found = []
            for outcome in outcomes(name, given.seed, samples, numbers):
                found.append(outcome)
                if given.only is not None:
                    said = outcome.pop("said")
                    print(said, json.dumps(outcome), sep="\n")
                elif outcome["problem"]:
                    print(f"{name} {outcome['number']}: {outcome['problem']}", flush=True)
                if outcome["problem"] and given.keep:
                    keep(name, given.seed, outcome["number"], samples, given.keep)
            print(summary(name, found), flush=True)
            wrong += sum(1 for outcome in found if outcome["problem"])
    return 1 if wrong else 0


def keep(name: str, seed: int, number: int, samples: Path, folder: Path) -> None:
    """Write the damaged file of a case again, under its number."""
    folder.mkdir(parents=True, exist_ok=True)
    format = FORMATS[name]
    format.prepare(samples)
    with TemporaryDirectory() as place:
        file, _ = made(format, Path(place), number, seed)
        (folder / f"{name}-{seed}-{number}{file.suffix}").write_bytes(file.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
