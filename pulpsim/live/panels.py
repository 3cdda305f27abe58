"""The panel of the live view: console, code, registers or memory, as lines."""

from rich.text import Text

from isa.names import X_NAMES
from pulpsim.console import neutralised, one_line
from pulpsim.live.source import Source, State

LINES_WANTED = {"console": 3, "code": 7, "registers": 6, "float registers": 5, "memory": 6}
OF_HARTS = "code", "registers", "float registers"
"""Panels that are about the selected hart."""
BYTES = 32  # of memory in a line
REGISTERS = 7  # in a line


def panel_names(source: Source) -> list[str]:
    """The panels that a source can fill."""
    if not source.state:
        return ["code"]
    has_floats = len(source.state.registers(0)) > 1 + len(X_NAMES)
    return [name for name in LINES_WANTED if has_floats or name != "float registers"]


def panel_lines(source: Source, panel: str, hart: int, address: int, lines: int) -> list[Text]:
    """What a panel shows, in as many lines."""
    if panel == "console":
        return [
            Text(line) for line in neutralised(source.console).expandtabs().split("\n")[-lines:]
        ]
    if panel == "code" or source.state is None:
        return _code(source, hart, lines)
    if panel == "registers":
        return _registers(source.state, hart, source.harts()[hart].place)
    if panel == "float registers":
        return _table(_cells(source.state, hart)[1 + len(X_NAMES) :])
    return _memory(source.state, address, lines)


def _code(source: Source, hart: int, lines: int) -> list[Text]:
    now = source.harts()[hart]
    shown = []
    for address, text in source.listing(hart, lines):
        mark = "▶" if address == now.pc else "●" if address in source.breakpoints else " "
        line = f" {mark} {address:08x}  {text:40}"
        line += f"  {now.place}  {now.line}" if address == now.pc else ""
        shown.append(Text(one_line(line), "bold" if address == now.pc else ""))
    return shown


def _registers(state: State, hart: int, place: str) -> list[Text]:
    pc, *cells = _cells(state, hart)[: 1 + len(X_NAMES)]
    return [Text(one_line(f"{pc}  {place}")), *_table(cells)]


def _cells(state: State, hart: int) -> list[str]:
    return [f"{name:>5} {value:08x}" for name, value in state.registers(hart).items()]


def _table(cells: list[str]) -> list[Text]:
    rows = range(0, len(cells), REGISTERS)
    return [Text("".join(cells[row : row + REGISTERS])) for row in rows]


def _memory(state: State, address: int, lines: int) -> list[Text]:
    shown = []
    for start in range(address, address + BYTES * lines, BYTES):
        try:
            data = state.read(start, BYTES)
        except ValueError as error:
            shown.append(Text(f" {start:08x}  {error}", "dim"))
            break
        words = " ".join(data[k : k + 4][::-1].hex() for k in range(0, BYTES, 4))
        shown.append(Text(f" {start:08x}  {words}"))
    return shown
