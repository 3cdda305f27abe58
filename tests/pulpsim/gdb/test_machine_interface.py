"""The driver of GDB: no line is lost, however they are read."""

import subprocess
import sys

from tests.pulpsim.gdb.machine_interface import Gdb

ANSWERS = '1^running\\n*stopped,reason="breakpoint-hit"\\n2^done,value="7"\\n'


def test_a_stop_read_together_with_the_answer_before_it_is_seen() -> None:
    """As on a busy machine, where GDB's process is ahead of the test's."""
    command = [sys.executable, "-c", f"print('{ANSWERS}', end='', flush=True); input()"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        gdb = Gdb(process)
        assert gdb.go("-exec-continue") == {"reason": "breakpoint-hit"}
        assert gdb.value("x") == "7"
