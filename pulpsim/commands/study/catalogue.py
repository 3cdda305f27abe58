"""The studies by name."""

from pulpsim.commands.study import banking, dma, roofline, scaling, stride, traffic
from pulpsim.commands.study.study import Study

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY for module in (banking, stride, traffic, dma, scaling, roofline)
}
