"""All of them, in the order of their numbers."""

from isa.extensions.xcv.alu import XCVALU
from isa.extensions.xcv.bi import XCVBI
from isa.extensions.xcv.bitmanip import XCVBITMANIP
from isa.extensions.xcv.elw import XCVELW
from isa.extensions.xcv.hwlp import XCVHWLP
from isa.extensions.xcv.mac import XCVMAC
from isa.extensions.xcv.mem import XCVMEM
from isa.extensions.xcv.simd import XCVSIMD

EXTENSIONS = XCVMEM, XCVALU, XCVBITMANIP, XCVBI, XCVMAC, XCVHWLP, XCVELW, XCVSIMD
