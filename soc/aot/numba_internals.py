"""All of Numba that is not its public interface, by name: a new version of it is tried here first.

What soc.aot makes of these is tested with the versions in soc.aot.versions.
"""

from numba.core import cgutils, codegen, cpu, transforms, typed_passes, untyped_passes
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.compiler import CompilerBase
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, _pass_registry, register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.funcdesc import ExternalFunctionDescriptor
from numba.core.imputils import lower_constant, lower_getattr
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime import rtsys
from numba.core.typing import Context, make_concrete_template, signature
from numba.core.typing.templates import AttributeTemplate, Signature, infer_getattr
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

__all__ = [
    "AttributeTemplate",
    "CPUDispatcher",
    "CompileResultCacheImpl",
    "CompilerBase",
    "Context",
    "Dispatcher",
    "ExternalFunctionDescriptor",
    "FunctionCache",
    "Lower",
    "PassManager",
    "Signature",
    "_CacheLocator",
    "_pass_registry",
    "cgutils",
    "codegen",
    "cpu",
    "cpu_target",
    "from_dtype",
    "global_compiler_lock",
    "infer_getattr",
    "lower_constant",
    "lower_getattr",
    "make_array",
    "make_concrete_template",
    "populate_array",
    "register_pass",
    "rtsys",
    "signature",
    "transforms",
    "typed_passes",
    "untyped_passes",
]
