"""Damaged .npz files: arrays that are the inputs of a kernel."""

import io
import random
import zipfile
from pathlib import Path

import numpy as np

from tests.fuzz.damage import damaged_bytes, toml_text
from tests.fuzz.formats import CYCLES, PRODUCT, Case, Format, written

DTYPES = "<f4 >f4 <f8 <f2 <i4 <i8 |b1 |O |S5 <U7 <U1000000000 |V8 <M8[ns] <c16 <f1 f9 [] 4".split()
SHAPES = (
    "(8, 4)", "()", "(0,)", "(8, 4, 1)", "(-1, 4)", "(8.0, 4)", "(True, 4)", "None", "8", "(8,",
    "(10000000, 10000000)", f"({1 << 62}, 4)", f"({1 << 64},)", f"({10**40}, 1)", "(0, 1 << 70)",
    f"(0, {1 << 70})", "('a',)", "(" * 200 + "8", "(8, 4" + ", 1" * 100 + ")",
)  # fmt: skip


def array(values: np.ndarray) -> bytes:
    """An array as a .npy file."""
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def with_header(values: np.ndarray, rng: random.Random) -> bytes:
    """A .npy file whose header says something else than its data."""
    descr, order, shape = "'<f4'", "False", str(values.shape)
    what = rng.randrange(5)
    if what == 0:
        descr = rng.choice((*(f"'{dtype}'" for dtype in DTYPES), "[('a', '<f4')]", "None", "3"))
    elif what == 1:
        order = rng.choice(("True", "None", "0", "'x'"))
    elif what < 4:
        shape = rng.choice(SHAPES)
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if what == 4:
        odd = ("", "{}", "[]", header[:-9], "(" * 5000, f"{header}#", "1L", "a" * 60000)
        header = rng.choice(odd)
    data = header.encode().ljust(117) + b"\n"
    version = rng.choice((b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\4\0", b"\0\0"))
    size = len(data) if rng.random() < 0.9 else rng.getrandbits(16)
    length = size.to_bytes(2 if version == b"\1\0" else 4, "little")
    return b"\x93NUMPY" + version + length + data + values.tobytes()


class Npz(Format):
    name, count = "npz", 500

    def prepare(self, samples: Path) -> None:
        from trainlib.launch import program

        kernel = program(PRODUCT["kernel"], PRODUCT["args"])
        self.values = kernel.family.random(kernel.arguments)

    def case(self, folder: Path, number: int, rng: random.Random) -> Case:
        members = {f"{name}.npy": array(values) for name, values in self.values.items()}
        kind = rng.randrange(4)
        name = rng.choice(list(members))
        values = self.values[name.removesuffix(".npy")]
        if kind == 0:
            members[name] = with_header(values, rng)
        elif kind == 1:
            self._change_members(members, name, rng)
        file = written(folder / "damaged.npz", self._archive(members, rng))
        if kind > 1:
            file.write_bytes(damaged_bytes(file.read_bytes(), rng))
        table = {"program": {**PRODUCT, "inputs": "damaged.npz"}}
        config = written(folder / "run.toml", toml_text(table))
        return file, ["run", str(config), *CYCLES]

    def _change_members(self, members: dict[str, bytes], name: str, rng: random.Random) -> None:
        """Other members, other names, members that are no arrays, or very large ones."""
        values = self.values[name.removesuffix(".npy")]
        kind = rng.randrange(9)
        if kind == 0:
            del members[name]
        elif kind == 1:
            members[rng.choice(("x.npy", "x", "", "../x.npy", "\u202e.npy", "a" * 9999))] = b""
        elif kind == 2:
            damaged = damaged_bytes(members[name], rng)
            members[name] = rng.choice((b"", b"\x93NUMPY", b"PK", b"text", damaged, damaged))
        elif kind == 3:
            members[name] = array(values.astype(rng.choice(("f8", "i4", "c8", "S4", "?", ">f4"))))
        elif kind == 4:
            members[name] = array(np.asfortranarray(values))
        elif kind == 5:
            members[name] = array(np.zeros((1 << 14, 1 << 14), "u1"))
        elif kind == 6:
            members[name] = array(np.full(values.shape, rng.choice((np.nan, np.inf, 1e38)), "f4"))
        elif kind == 7:
            members |= {f"{index}.npy": b"" for index in range(5000)}
        else:
            members[name] = array(np.array([{"a": 1}], object))

    def _archive(self, members: dict[str, bytes], rng: random.Random) -> bytes:
        methods = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", rng.choice(methods), compresslevel=1) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        if rng.random() < 0.05:
            return array(np.zeros(4)) if rng.random() < 0.5 else b""
        return stream.getvalue()
