"""Numba's compiler with the passes that step functions need: a third of the time.

Step functions are plain: no closures, no context managers, no arrays made, no exceptions. No value
of theirs is counted or freed, so where each is used last is not worked out.
"""

from soc.aot.numba_internals import (
    CompilerBase,
    Lower,
    PassManager,
    _pass_registry,
    register_pass,
    transforms,
    typed_passes,
    untyped_passes,
)

PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.DeadBranchPrune,
    untyped_passes.GenericRewrites,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)
TYPING = PASSES.index(typed_passes.NopythonTypeInference)


class LeanPasses(PassManager):
    """Runs passes without timing, describing and checking each of them."""

    def run(self, state):
        for kind, _ in self.passes:
            info = _pass_registry.get(kind)
            info.pass_inst.analysis = self._analysis
            info.pass_inst.run_initialization(state)
            info.pass_inst.run_pass(state)
            info.pass_inst.run_finalizer(state)
            if info.mutates_CFG:
                state.func_ir.blocks = transforms.canonicalize_cfg(state.func_ir.blocks)


class LeanCompiler(CompilerBase):
    """Numba's pipeline of these passes, for functions whose variables keep their types."""

    passes = PASSES

    def define_pipelines(self):
        passes = LeanPasses("step function")
        for kind in self.passes:
            passes.add_pass(kind, kind._name)
        passes.finalize()
        return [passes]


class RenamingCompiler(LeanCompiler):
    """The same for functions whose variables may change their types between assignments."""

    passes = (*PASSES[:TYPING], untyped_passes.ReconstructSSA, *PASSES[TYPING:])


class ColdLower(Lower):
    """Writes LLVM's text of a function that is not to be inlined."""

    def setup_function(self, fndesc):
        super().setup_function(fndesc)
        self.function.attributes.add("noinline")


@register_pass(mutates_CFG=True, analysis_only=False)
class ColdLowering(typed_passes.BaseNativeLowering):
    """NativeLowering, for such a function."""

    _name = "cold_lowering"

    @property
    def lowering_class(self):
        return ColdLower


class ColdCompiler(RenamingCompiler):
    """The same for functions that LLVM must not inline."""

    passes = tuple(
        ColdLowering if kind is typed_passes.NativeLowering else kind
        for kind in RenamingCompiler.passes
    )
