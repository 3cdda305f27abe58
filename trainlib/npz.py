"""Reader of .npz files, as numpy.savez writes them.

NumPy's own reader allocates what a header claims; here a file costs no more than its contents.

Source: NumPy, numpy.lib.format: versions 1.0 and 2.0 of .npy.
"""

import ast
import zlib
from math import prod
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

LARGEST = 128 << 20  # bytes of all arrays: twice the largest L2
MOST = 1024  # arrays
LONGEST_HEADER = 10_000  # bytes
MAGIC = b"\x93NUMPY"
LENGTHS = {b"\x01\x00": 2, b"\x02\x00": 4}
"""Bytes of the header's length by the version of the format."""
WAY_OUT = "numpy.savez writes one"

UNREADABLE = (BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error)
"""What zipfile raises for what is no archive, is damaged, or is encrypted."""


def read_npz(file: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file.

    raises    ValueError if it cannot be read
    """
    try:
        with ZipFile(file) as archive:
            return _arrays(file, archive)
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror or error}") from None
    except _DamagedError as error:
        raise ValueError(f"{file}: {error}; {WAY_OUT}") from None
    except UNREADABLE:
        raise ValueError(f"{file}: not an .npz file; {WAY_OUT}") from None


class _DamagedError(Exception):
    """What is wrong, and with which array."""


def _arrays(file: Path, archive: ZipFile) -> dict[str, np.ndarray]:
    members = archive.infolist()
    size = sum(member.file_size for member in members)
    if len(members) > MOST or size > LARGEST:
        most = f"{MOST} arrays of {LARGEST} bytes"
        raise _DamagedError(f"{len(members)} arrays of {size} bytes together; the most are {most}")
    return {
        member.filename.removesuffix(".npy"): _array(archive, member, f"array {member.filename!a}")
        for member in members
    }


def _array(archive: ZipFile, member: ZipInfo, what: str) -> np.ndarray:
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        method = member.compress_type
        raise _DamagedError(f"{what:.60} is compressed by method {method}, not by 0 or 8")
    try:
        with archive.open(member) as stream:
            data = stream.read(member.file_size + 1)  # NOTE: read() expands all there is
    except UNREADABLE as error:
        raise _DamagedError(f"{what:.60} is damaged: {error!s:.100}") from None
    length = LENGTHS.get(data[6:8])
    if data[:6] != MAGIC or length is None:
        raise _DamagedError(f"{what:.60} is no .npy file of version 1.0 or 2.0")
    start = 8 + length + int.from_bytes(data[8 : 8 + length], "little")
    dtype, is_fortran, shape = _header(data[8 + length : start], what)
    if dtype.itemsize * prod(shape) != len(data) - start:
        claimed = f"{dtype} of shape {shape}"
        raise _DamagedError(
            f"{what:.60} has {max(0, len(data) - start)} bytes, which are not {claimed:.80}"
        )
    return np.ndarray(shape, dtype, data, start, order="F" if is_fortran else "C").copy()


def _header(data: bytes, what: str) -> tuple[np.dtype, bool, tuple[int, ...]]:
    """Type, order and shape of an array."""
    known: Any = None
    try:
        if len(data) <= LONGEST_HEADER:
            known = ast.literal_eval(data.decode("latin-1").strip())
        descr, is_fortran, shape = (known[k] for k in ("descr", "fortran_order", "shape"))
        dtype = np.dtype(descr)
    except (KeyError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        raise _DamagedError(f"{what:.60} has a header that cannot be read") from None
    is_shape = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
    if not is_shape or type(is_fortran) is not bool or len(shape) > 32:
        raise _DamagedError(f"{what:.60} has a header of shape {shape!r:.40}")
    if dtype.kind not in "biufcSUV" or not dtype.itemsize or dtype.subdtype:
        raise _DamagedError(f"{what:.60} is of type {descr!r:.40}; it takes numbers")
    return dtype, is_fortran, shape
