"""SoC control (apb_soc_ctrl): what the chip is, the end of the run, start of the cluster.

Source: pulp_soc rtl/components/apb_soc_ctrl.sv, pulp-runtime archi/apb_soc_v3.h.
"""

from collections.abc import Callable

from soc.address_map.registers import SOC_CONTROL
from soc.peripherals.register_block import RegisterBlock, loads, stores

END = SOC_CONTROL.register("CORE_STATUS").fields[1].mask
STATUS = SOC_CONTROL.register("CORE_STATUS").fields[0].mask
FETCH_ENABLE = SOC_CONTROL.register("CLUSTER_CONTROL").fields[2].mask


class SocControl(RegisterBlock, read_only=("INFO", "CORE_STATUS_READ")):
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
        self.cores, self.exit, self.start_cluster = cores, exit, start_cluster

    @loads("INFO")
    def _information(self, name: str, index: int) -> int:
        return self.cores << 16 | 1

    @loads("CORE_STATUS_READ")
    def _status(self, name: str, index: int) -> int:
        return self.word("CORE_STATUS")

    @stores("CORE_STATUS")
    def _set_status(self, name: str, index: int, value: int) -> None:
        self.put(name, index, value)
        if value & END:
            self.exit(value & STATUS)

    @stores("CLUSTER_CONTROL")
    def _control_cluster(self, name: str, index: int, value: int) -> None:
        rises = value & ~self.word(name) & FETCH_ENABLE
        self.put(name, index, value & 0xF)
        if rises:
            self.start_cluster()
