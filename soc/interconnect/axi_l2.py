"""The way to L2 and its banks: one AXI port of the cluster, shared by cores, DMA and refills.

    core -> demux FIFO -> peripheral crossbar -> per2axi \\
    DMA -------------------------------------------------> crossbar -> clock crossing -> L2 banks
    instruction cache -----------------------------------/                fabric controller -/

An address, a write beat and a read beat of 8 bytes pass per cycle; L2 answers in order. All
requesters call in the order of cycles, so a channel is just the first cycle in which it is free.
Crossbar and isolation add no cycle, so in a cycle where two ask, the one that calls first goes
first; the RTL's round robin would differ by that one cycle.

Sources: per2axi, axi_xbar, axi_cdc, axi_to_mem_split as pulp_cluster caaa973 connects them,
measured on RTL with equal clocks; data_periph_demux and pulp_soc bf65372 from their text; reads of
private banks and the ROM measured at the plug of pulp_soc 5.0.1. What is written to private banks,
of which beats take two cycles each there, too, passes as fast as the rest here.
"""

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from soc.prelude.field import setting
from soc.prelude.step import step

BEAT_BYTES = 8
WORD_BYTES = 4
WINDOWS = 16  # bursts that are remembered for conflicts with the fabric controller
READ, WRITE = range(2)


class L2Spec(BaseModel):
    """Fields of L2 and of the way to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: int = setting(
        0x1C000000, "address", "pulp memory map: L2 private bank 0", multiple_of=BEAT_BYTES
    )
    size: int = setting(
        2 << 20,
        "bytes",
        "the PULP of PULP-TrainLib: 2 MB",
        ge=1024,
        le=64 << 20,
        multiple_of=BEAT_BYTES,
    )
    private_banks: int = setting(2, "banks", "pulp_soc: L2 private banks 0 and 1", le=8)
    private_size: int = setting(
        32 * 1024,
        "bytes each",
        "pulp memory map: L2 priv0, priv1",
        ge=BEAT_BYTES,
        multiple_of=BEAT_BYTES,
    )
    banks: int = setting(4, "banks", "pulp_soc: NB_L2_CHANNELS, word-interleaved", ge=1, le=64)
    bank_latency: int = setting(
        1, "cycles", "measured on RTL without clock crossing: AR to R, W to B", ge=1, le=1000
    )
    cluster_synchronizer_stages: int = setting(
        3, "stages", "pulp_cluster: axi_cdc SyncStages; 0: no clock crossing", le=16
    )
    soc_synchronizer_stages: int = setting(
        3, "stages", "pulp_soc's side of the crossing; 0: no clock crossing", le=16
    )
    demux_cycles: int = setting(
        1, "cycles", "data_periph_demux.sv: its FIFO, request to per2axi", ge=1, le=100
    )
    load_cycles: int = setting(
        2, "cycles", "per2axi measured on RTL: 13 = 2 + AR to R with 3 stages", ge=1, le=100
    )
    store_cycles: int = setting(
        3, "cycles", "per2axi measured on RTL: 14 = 3 + W to B with 3 stages", ge=1, le=100
    )
    grant_cycles: int = setting(
        1, "cycles", "data_periph_demux.sv: response to the core's grant", ge=1, le=100
    )

    @model_validator(mode="after")
    def _banks_fit(self) -> "L2Spec":
        if self.banks & (self.banks - 1):
            raise ValueError(f"banks is {self.banks}; the number of banks is a power of two")
        if self.size <= self.private_banks * self.private_size:
            raise ValueError(
                f"size {self.size} leaves no interleaved banks after {self.private_banks} private "
                f"banks of {self.private_size} bytes"
            )
        return self

    @property
    def crossings(self) -> tuple[int, int]:
        """Cycles from the cluster to L2 and back: stages of the receiving side + 2, or none."""
        stages = self.soc_synchronizer_stages, self.cluster_synchronizer_stages
        there, back = (count + 2 if count else 0 for count in stages)
        return there, back


L2_STATE = np.dtype(
    [
        ("interleaved", "i8"),  # first address after the private banks
        ("banks", "i8"),
        ("private_banks", "i8"),
        ("private_size", "i8"),  # bytes
        ("there", "i8"),
        ("latency", "i8"),  # AR to R, last W to B
        ("demux", "i8"),
        ("load", "i8"),
        ("store", "i8"),
        ("grant", "i8"),
        ("address_free", "i8", (2,)),  # first free cycle of AR, AW
        ("data_free", "i8", (2,)),  # of R, W
        ("one_port_free", "i8"),  # of R, for a beat whose words come from one port
        ("response_free", "i8"),  # of B
        ("core_free", "i8"),  # of per2axi's input
        ("window", "i8"),  # bursts so far
        ("window_start", "i8", (WINDOWS,)),  # cycle in which L2 accesses their first beat
        ("window_beats", "i8", (WINDOWS,)),
        ("window_word", "i8", (WINDOWS,)),  # its first interleaved word, or -1: private banks
        ("cluster_next", "i8"),  # who goes first at the next conflict
        ("core_accesses", "i8"),
        ("beats", "i8", (2,)),
        ("controller_conflicts", "i8"),
    ],
    align=True,
)


def l2_state(spec: L2Spec) -> np.ndarray:
    """The L2's ports at reset: L2_STATE[1]."""
    state = np.zeros(1, L2_STATE)
    there, back = spec.crossings
    state["interleaved"] = spec.base + spec.private_banks * spec.private_size
    state["banks"] = spec.banks
    state["private_banks"] = spec.private_banks
    state["private_size"] = spec.private_size
    state["there"] = there
    state["latency"] = there + spec.bank_latency + back
    state["demux"] = spec.demux_cycles
    state["load"] = spec.load_cycles
    state["store"] = spec.store_cycles
    state["grant"] = spec.grant_cycles
    return state


@step
def _remember(l2, start, beats, address):
    """Note when a burst is at the banks."""
    place = l2["window"] % WINDOWS
    l2["window"] += 1
    l2["window_start"][place] = start
    l2["window_beats"][place] = beats
    offset = (address & -BEAT_BYTES) - l2["interleaved"]
    l2["window_word"][place] = offset // WORD_BYTES if offset >= 0 else -1


@step
def l2_read_gap(l2, address):
    """Cycles from one beat that is read at an address to the next one.

    A read takes both words of a beat, whatever its size: from two of the interleaved banks at once,
    from a private bank or the ROM, which have one port, one after the other.
    """
    return 1 if address >= l2["interleaved"] else 2


@step
def l2_burst(l2, cycle, address, beats, write):
    """Start a burst of 8-byte beats whose address is on the cluster's port in this cycle.

    Returns the cycle of its first beat there; the others follow one per cycle, read ones one per
    l2_read_gap. Read: what L2 delivers. Write: what it accepts, from this cycle on;
    l2_write_response dates its end.
    """
    accepted = max(cycle, l2["address_free"][write])
    l2["address_free"][write] = accepted + 1
    first = max(accepted if write else accepted + l2["latency"], l2["data_free"][write])
    gap = 1 if write else l2_read_gap(l2, address)
    if gap > 1:
        first = max(first, accepted + l2["latency"] + 1, l2["one_port_free"])
        l2["one_port_free"] = first + beats * gap
    l2["data_free"][write] = first + (beats - 1) * gap + 1
    l2["beats"][write] += beats
    at_bank = first + l2["there"] if write else first - l2["latency"] + l2["there"]
    _remember(l2, at_bank, beats, address)
    return first


@step
def l2_write_response(l2, last):
    """Return the cycle of the response (B) to a burst whose last beat passed in cycle `last`."""
    response = max(last + l2["latency"], l2["response_free"])
    l2["response_free"] = response + 1
    return response


@step
def l2_core_request(l2, cycle, address, is_store):
    """Pass on a core's load or store, on its bus from this cycle on, to L2 or the ROM.

    Returns the cycle of the grant, in which the next instruction can issue: stores block too.
    """
    accepted = max(cycle + l2["demux"], l2["core_free"])
    l2["core_free"] = accepted + 1
    l2["core_accesses"] += 1
    if is_store:
        beat = l2_burst(l2, accepted + l2["store"] - 1, address, 1, WRITE)
        return l2_write_response(l2, beat) + 1 + l2["grant"]
    return l2_burst(l2, accepted + l2["load"] - 1, address, 1, READ) + 1 + l2["grant"]


@step
def _cluster_beat(l2, cycle, bank):
    """Is a beat of the cluster's, two words wide, at this interleaved bank in this cycle?"""
    for place in range(WINDOWS):
        beat = cycle - l2["window_start"][place]
        if 0 <= beat < l2["window_beats"][place] and l2["window_word"][place] >= 0:
            word = l2["window_word"][place] + 2 * beat
            if (bank - word) & (l2["banks"] - 1) < 2:
                return True
    return False


@step
def l2_controller_access(l2, cycle, address):
    """Return the cycle in which an access of the fabric controller's is granted: at once, mostly.

    Each of its ports reaches a bank every cycle, the response is in the next one. Cluster beats are
    at the interleaved banks alone; the two take turns there, so it loses one cycle at most.
    """
    offset = address - l2["interleaved"]
    if offset < 0 or not _cluster_beat(l2, cycle, offset // WORD_BYTES & (l2["banks"] - 1)):
        return cycle
    if l2["cluster_next"]:
        l2["cluster_next"] = 0
        l2["controller_conflicts"] += 1
        return cycle + 1
    l2["cluster_next"] = 1
    l2["data_free"][READ] += 1
    return cycle
