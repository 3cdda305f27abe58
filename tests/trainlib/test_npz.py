"""Arrays of .npz files."""

import io
import re
import zipfile

import numpy as np
import pytest

from trainlib.npz import LARGEST, read_npz


def npy(shape="(2, 3)", descr="'<f4'", order="False", data=bytes(24), version=b"\1\0"):
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode() + b"\n"
    length = len(header).to_bytes(2 if version == b"\1\0" else 4, "little")
    return b"\x93NUMPY" + version + length + header + data


def archive(file, data, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(file, "w", method) as written:
        written.writestr("A.npy", data)
    return file


def test_what_numpy_writes_is_read(tmp_path):
    arrays = {
        "row": np.arange(6, dtype="<f4").reshape(2, 3),
        "column": np.asfortranarray(np.arange(6, dtype=">i8").reshape(2, 3)),
        "one": np.array(7, np.int32),
        "none": np.zeros((0, 4), bool),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        read = read_npz(tmp_path / "a.npz")
        assert read.keys() == arrays.keys()
        for name, array in arrays.items():
            assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)
            assert np.array_equal(read[name], array)
    assert read_npz(archive(tmp_path / "b.npz", npy(version=b"\2\0")))["A"].shape == (2, 3)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (npy("(10000000, 10000000)"), "has 24 bytes, which are not float32 of shape (10000000, "),
        (npy(f"(0, {1 << 70})"), "has 24 bytes, which are not float32 of shape (0, 1180591620"),
        (npy("(-2, -3)"), "has a header of shape (-2, -3)"),
        (npy("(2.0, 3)"), "has a header of shape (2.0, 3)"),
        (npy(order="'x'"), "has a header of shape (2, 3)"),
        (npy("(" * 300), "has a header that cannot be read"),
        (npy("__import__('os')"), "has a header that cannot be read"),
        (npy(descr="'|O'"), "is of type '|O'; it takes numbers"),
        (npy(descr="'(2,3)<f4'"), "is of type '(2,3)<f4'; it takes numbers"),
        (npy(version=b"\3\0"), "is no .npy file of version 1.0 or 2.0"),
        (b"text", "is no .npy file of version 1.0 or 2.0"),
    ],
)
def test_a_header_that_is_not_of_its_data_is_refused_by_the_array_s_name(tmp_path, data, rule):
    file = archive(tmp_path / "a.npz", data)
    with pytest.raises(ValueError, match=rf"^{file}: array 'A.npy' {re.escape(rule)}"):
        read_npz(file)


def test_an_archive_is_not_expanded_beyond_what_it_says(tmp_path):
    file = archive(tmp_path / "a.npz", bytes(LARGEST + 1), zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match=rf"^{file}: 1 arrays of {LARGEST + 1} bytes together; "):
        read_npz(file)
    data = file.read_bytes()
    small = (24).to_bytes(4, "little")  # as directory and member say
    file.write_bytes(data.replace((LARGEST + 1).to_bytes(4, "little"), small))
    with pytest.raises(ValueError, match=rf"^{file}: array 'A.npy' is "):
        read_npz(file)
    archive(file, npy(), zipfile.ZIP_LZMA)
    with pytest.raises(ValueError, match=rf"^{file}: array 'A.npy' is compressed by method 14, "):
        read_npz(file)


def test_a_damaged_member_is_named(tmp_path):
    stream = io.BytesIO()
    np.savez(stream, A=np.ones(100))
    data = bytearray(stream.getvalue())
    data[300] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(ValueError, match=r"array 'A.npy' is damaged: Bad CRC-32 for file 'A.npy'"):
        read_npz(tmp_path / "a.npz")
