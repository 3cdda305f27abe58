"""All of them, in the order of their numbers."""

from isa.extensions.xpulp.alu import XPULPALU
from isa.extensions.xpulp.bitop import XPULPBITOP
from isa.extensions.xpulp.br import XPULPBR
from isa.extensions.xpulp.elw import XPULPELW
from isa.extensions.xpulp.hwloop import XPULPHWLOOP
from isa.extensions.xpulp.late import XPULPLATE
from isa.extensions.xpulp.mac import XPULPMAC
from isa.extensions.xpulp.postmod import XPULPPOSTMOD
from isa.extensions.xpulp.vect import XPULPVECT

EXTENSIONS = (
    *(XPULPPOSTMOD, XPULPALU, XPULPBITOP, XPULPBR, XPULPMAC, XPULPHWLOOP, XPULPELW),
    *(XPULPVECT, XPULPLATE),
)
