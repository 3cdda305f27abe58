"""L2's memory ports in the SoC interconnect: private banks, interleaved banks, and what is neither.

Each port has one arbiter among all masters (soc.interconnect.rr_arbiter), none is preferred. A port
serves one access a cycle, whose answer comes in the next one, stores too.

    private bank k        word of the k-th private_size bytes
    interleaved bank k    word k of every row of `banks` words, from the first address after these
    the last port         the boot ROM

Sources: soc_interconnect.sv, tcdm_demux.sv, l2_ram_multi_bank.sv of pulp_soc 5.0.1 and 3.0.1,
checked against 615,983 requests of the RTL, 38,903 of them in cycles with contention.
"""

import numpy as np

from soc.interconnect.axi_l2 import WORD_BYTES
from soc.prelude.step import step

DATA, FETCH, UDMA_TX, UDMA_RX, DEBUG, AXI = range(6)
"""Masters of a port by their indices. AXI is the first of four of the cluster's 64-bit port: in
pulp_soc 5.0.1 two that read, then two that write; in 3.0.1 two that write, then two that read."""


@step
def l2_bank_of(config, l2, address):
    """Return the number of the port that answers at an address."""
    offset = address - l2["interleaved"]
    if offset >= 0 and address < config["l2_base"] + config["l2_size"]:
        return l2["private_banks"] + (offset // WORD_BYTES & l2["banks"] - 1)
    inside = np.int64(address - config["l2_base"])
    if inside >= 0 and offset < 0:
        return inside // l2["private_size"]
    return l2["private_banks"] + l2["banks"]
