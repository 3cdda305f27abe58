"""Cluster control: boot addresses, fetch enable, end of computation.

Source: cluster_peripherals cluster_control_unit.sv; archi/cluster_ctrl/cluster_ctrl_v2.h.
"""

from collections.abc import Callable

from soc.address_map.registers import CLUSTER_CONTROL
from soc.peripherals.register_block import RegisterBlock, loads, stores


class ClusterControl(RegisterBlock, write_only=("EVENT",), read_only=("CONFIG",)):
    """Starts and stops the cluster's cores.

    Ports
        warn            out   see RegisterBlock
        fetch_enable    out   cores that run, a bit each, at every store
        end             out   end of computation, at every store
        clock_gate      out   gate the cluster's clock while nothing runs, at every store
    """

    def __init__(
        self,
        cores: int,
        configuration: int,
        warn: Callable[[str], None],
        fetch_enable: Callable[[int], None],
        end: Callable[[bool], None],
        clock_gate: Callable[[bool], None],
    ):
        super().__init__("cluster_control", CLUSTER_CONTROL, warn)
        self.cores, self.configuration = cores, configuration
        self.fetch_enable, self.end, self.clock_gate = fetch_enable, end, clock_gate

    def boot_address(self, core: int) -> int:
        """Where a core starts when its fetch enable rises."""
        return self.word("BOOT_ADDRESS", core)

    def enable_all(self) -> None:
        """Fetch enable of the whole cluster, as the SoC's control sets it."""
        self._enable("FETCH_ENABLE", 0, -1)

    @loads("CONFIG")
    def _configuration(self, name: str, index: int) -> int:
        return self.configuration

    @stores("FETCH_ENABLE")
    def _enable(self, name: str, index: int, value: int) -> None:
        self.put(name, index, value & (1 << self.cores) - 1)
        self.fetch_enable(self.word(name))

    @stores("END")
    def _end(self, name: str, index: int, value: int) -> None:
        self.put(name, index, value & 1)
        self.end(bool(value & 1))

    @stores("CLOCK_GATE")
    def _gate(self, name: str, index: int, value: int) -> None:
        self.put(name, index, value & 1)
        self.clock_gate(bool(value & 1))


def cluster_configuration(cores: int, l1_size: int, l2_size: int, icache_size: int) -> int:
    """The CONFIG register: L2 in kB from bit 10, codes of the cache, L1 and cores, an FPU."""
    icache = {4096: 0, 8192: 1, 16384: 2}.get(icache_size, 3)
    l1 = {32768: 0, 65536: 1, 131072: 2}.get(l1_size, 3)
    return l2_size >> 10 << 10 | icache << 6 | l1 << 4 | 1 << 2 | {4: 1, 8: 2, 16: 3}.get(cores, 0)
