"""The instruction reference: a page for each extension, from the declarations."""

from collections.abc import Iterator
from itertools import product

from docs.markdown import code, page, table
from isa.declare import Insn
from isa.extensions.docs import TIMING
from isa.extensions.profiles import CORES, profile

HEADINGS = "syntax", "what it does", "encoding", "timing class"


def instruction_pages() -> Iterator[tuple[str, str]]:
    """(file in docs/, text) of each extension, and of the list."""
    found = by_extension()
    for extension, insns in found.items():
        rows = [row(insn) for insn in insns]
        where = ", ".join(code(name) for name in profiles_with(insns[0]))
        parts = f"Profiles: {where}.\n", table(HEADINGS, rows)
        yield f"instructions/{extension}.md", page(extension, *parts)
    yield "instructions/list.md", list_page(found)


def by_extension() -> dict[str, list[Insn]]:
    """All instructions, each once, by extension."""
    found: dict[str, dict[int, Insn]] = {}
    for core, floats in product(CORES, "fx"):
        isa = profile(core, floats, True)
        for insn in (*isa.insns, *isa.compressed):
            found.setdefault(insn.extension, {})[id(insn)] = insn
    return {extension: list(insns.values()) for extension, insns in found.items()}


def row(insn: Insn) -> tuple[str, str, str, str]:
    """An instruction as a line of a table."""
    return code(insn.syntax), insn.doc, code(insn.encoding.text), insn.timing


def profiles_with(insn: Insn) -> Iterator[str]:
    """Names of the profiles that have it."""
    for core, floats, small in product(CORES, "fx", (False, True)):
        isa = profile(core, floats, small)
        if insn.key in isa and isa[insn.key] is insn:
            yield isa.name


def list_page(found: dict[str, list[Insn]]) -> str:
    """All extensions."""
    rows = [(f"[{name}]({name}.md)", str(len(insns))) for name, insns in found.items()]
    timings = [(code(name), text) for name, text in TIMING.items()]
    return page(
        "Instruction reference",
        "`pulpsim isa NAME` shows an instruction's page, with a drawing of its fields, what it "
        "reads and writes, and the chips that have it.\n",
        table(("extension", "instructions"), rows),
        "## Timing classes\n\nA chip gives each class its cycles; see [timing rules]"
        f"(../timing-rules.md).\n\n{table(('class', 'what'), timings)}",
        "\n".join(["```{toctree}", ":hidden:", "", *found, "```"]),
    )
