"""The server at its port: the loopback alone, one debugger at a time."""

import re
import socket
import subprocess
import sys
from contextlib import contextmanager
from time import monotonic

import pytest

from pulpsim.gdb.packet import packet
from soc.run import run_program
from tests.soc.random_programs import random_program

SECONDS = 120


@contextmanager
def serving(elf, *options):
    command = [sys.executable, "-m", "pulpsim", "gdb", str(elf), "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            for line in process.stderr:
                if found := re.search(rb"GDB server at 127\.0\.0\.1:(\d+)", line):
                    break
            yield process, int(found[1])
        finally:
            process.kill()


@pytest.fixture(scope="module")
def elf(tmp_path_factory):
    file = tmp_path_factory.mktemp("elf") / "random.elf"
    file.write_bytes(random_program(3).to_elf())
    return file


def connected(port: int) -> socket.socket:
    end = monotonic() + SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), SECONDS)
        except ConnectionRefusedError:
            assert monotonic() < end


def asked(client: socket.socket, data: bytes) -> bytes:
    client.sendall(packet(data))
    answer = b""
    while not re.search(rb"\$(|[^O#][^#]*|OK)#..$", answer):
        part = client.recv(4096)
        if not part:
            break
        answer += part
    return answer


def test_one_debugger_at_a_time_and_the_next_one_after_it(elf) -> None:
    with serving(elf, "--wait") as (_, port):
        with connected(port) as one:
            assert b"T02thread:9" in asked(one, b"?")
            with connected(port) as other:
                assert asked(one, b"qC").endswith(b"$QC9#cd")
                assert other.recv(10) == b""
        with connected(port) as later:
            assert b"T02thread:9" in asked(later, b"?")


def test_a_debugger_that_goes_leaves_the_run_where_it_is(elf) -> None:
    with serving(elf, "--wait") as (process, port):
        with connected(port) as one:
            asked(one, b"vCont;s:9")
            first = asked(one, b"p20")
        with connected(port) as other:
            assert asked(other, b"p20")[-12:] == first[-12:]
            assert b"OK" not in asked(other, b"k")
        assert process.wait(SECONDS) == 0


def test_without_wait_the_program_has_run_when_somebody_comes(elf) -> None:
    text = run_program(elf).console
    with serving(elf) as (process, port):
        shown = process.stdout.read1(len(text) or 1) if text else b""
        with connected(port) as client:
            end = asked(client, b"vCont;c")
            assert b"$W" in end or b"replaylog:end" in end
        assert text.startswith(shown.decode())


def test_a_port_that_is_taken_is_told(elf) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "pulpsim",
            "gdb",
            "examples/matmul.toml",
            "--port",
            str(port),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"pulpsim: --port {port}: Address already in use; --port 0 takes one that is free"
    )
