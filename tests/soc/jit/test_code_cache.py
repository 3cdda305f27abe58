"""Names of what is kept: machine code of superblocks that are written otherwise is made anew."""

import pytest

from soc.aot import cache as unit_cache
from soc.engine.interpreter import Interpreter
from soc.jit.code_cache import CodeCache


def named() -> str:
    return CodeCache().key(Interpreter("superblocks", "ri5cy-x", ["rv32i"]))


@pytest.mark.parametrize(
    "module", ["soc.jit.emit_llvm", "soc.jit.llvm_writer", "soc.core.if_stage"]
)
def test_the_key_changes_with_what_writes_superblocks_and_with_their_steps(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = named()
    digest = unit_cache.source_digest
    monkeypatch.setattr(
        unit_cache, "source_digest", lambda each: digest(each) + b"#" * (each == module)
    )
    assert named() != before


def test_the_key_does_not_change_with_what_they_do_not_depend_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = named()
    digest = unit_cache.source_digest
    monkeypatch.setattr(
        unit_cache, "source_digest", lambda each: digest(each) + b"#" * (each == "soc.dma.aligner")
    )
    assert named() == before
