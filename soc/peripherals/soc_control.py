"""SoC control (apb_soc_ctrl): what the chip is, the end of the run, start of the cluster.

Source: pulp_soc rtl/components/apb_soc_ctrl.sv, pulp-runtime archi/apb_soc_v3.h.
"""

from collections.abc import Callable

from soc.peripherals.register_block import RegisterBlock
from soc.registers import SOC_CONTROL

END = SOC_CONTROL.register("CORE_STATUS").fields[1].mask
STATUS = SOC_CONTROL.register("CORE_STATUS").fields[0].mask
FETCH_ENABLE = SOC_CONTROL.register("CLUSTER_CONTROL").fields[2].mask


class SocControl(RegisterBlock):
    """Tells firmware the number of cores, and the host when firmware is done.

    Ports
        warn             out   see RegisterBlock
        exit             out   status, when a store to CORE_STATUS has its end bit set
        start_cluster    out   when the cluster's fetch enable rises
    """

    def __init__(
        self,
        cores: int,
        warn: Callable[[str], None],
        exit: Callable[[int], None],
        start_cluster: Callable[[], None],
    ):
        super().__init__("soc_control", SOC_CONTROL, warn)
        self.exit, self.start_cluster = exit, start_cluster
        self.loads = {
            "INFO": lambda _: cores << 16 | 1,
            "CORE_STATUS_READ": lambda _: self.word("CORE_STATUS"),
        }
        self.stores = {
            "INFO": lambda _, __: None,
            "CORE_STATUS": self._store_core_status,
            "CORE_STATUS_READ": lambda _, __: None,
            "CLUSTER_CONTROL": self._store_cluster_control,
        }

    def _store_core_status(self, _: int, value: int) -> None:
        self.put("CORE_STATUS", value)
        if value & END:
            self.exit(value & STATUS)

    def _store_cluster_control(self, _: int, value: int) -> None:
        rises = value & ~self.word("CLUSTER_CONTROL") & FETCH_ENABLE
        self.put("CLUSTER_CONTROL", value & 0xF)
        if rises:
            self.start_cluster()
