"""Fields of the cores, of the fabric controller and of the ways to registers."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

from isa.declare import Isa
from isa.extensions.profiles import profile
from soc.prelude.field import setting

MEASURED = "measured on RTL"


class CoreSpec(BaseModel):
    """A core of the cluster; the fabric controller is of the same kind."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    isa: Literal["ri5cy", "cv32e40p"] = setting(
        "ri5cy", "", "pulp_cluster caaa973: CoreType = RI5CY"
    )
    encodings: Literal["xpulpv2", "xcv", "auto"] = setting(
        "auto", "", "RI5CY: xpulpv2, CV32E40P: xcv; PULP's fork of CV32E40P (7a49867): xpulpv2"
    )
    float_registers: Literal["f", "x", "auto"] = setting(
        "auto", "", "pulp_cluster: Zfinx = FPU, x registers; auto: as the program says, else x"
    )
    small_floats: bool = setting(
        True, "", "flex-v astral-v1.1: C_XF16 = C_XF16ALT = C_XF8 = C_XFVEC = 1; CV32E40P: none"
    )
    dot_products: bool = setting(
        False, "", "vfdotp, vfdotpex, vfavg, fmulex.s.ah: GVSoC has them, no RI5CY decodes them"
    )
    rtl_defects: bool = setting(
        False, "", "RI5CY: compute what flex-v e9355c2 computes, not what the ISA says"
    )
    apu_wop: Literal[6, 7] = setting(
        7, "bits", "with rtl_defects, APU_WOP_CPU; flex-v's default 6 cuts off the vector bit"
    )
    fpu_latency: int = setting(
        1, "registers", "flex-v: C_LAT_FP32 = 1; CV32E40P: FPU_ADDMUL_LAT = 1", ge=0, le=2
    )
    divider: Literal["thead", "pulp", "none"] = setting(
        "thead", "", "CV32E40P's default; RI5CY's is PULP's div_sqrt_mvp; none: FP_DIVSQRT = 0"
    )
    wfi_sleeps: bool = setting(
        True, "", "RI5CY; CV32E40P with COREV_CLUSTER = 1 takes wfi for a nop"
    )
    traps: Literal["stop", "handler"] = setting(
        "stop",
        "",
        "stop: an exception ends the run unless the program has set mtvec; handler: as hardware",
    )
    reset_pc: int = setting(
        0, "address", "boot address + 0x80; 0: the program's entry", multiple_of=2
    )
    reset_cycle: int = setting(3, "cycle", f"{MEASURED}: first issue of RI5CY", ge=1, le=1000)

    @model_validator(mode="after")
    def _has_defects_of_its_own(self) -> "CoreSpec":
        if self.rtl_defects and self.isa != "ri5cy":
            raise ValueError(
                f"core.rtl_defects = true with core.isa = {self.isa!r}: those are RI5CY's; "
                "set core.isa = 'ri5cy', or core.rtl_defects = false"
            )
        return self

    @property
    def rtl_wop(self) -> int | None:
        """APU_WOP_CPU of the RTL whose results the core gives; None: those that the ISA says."""
        return self.apu_wop if self.rtl_defects else None

    def instructions(self, registers: str) -> Isa:
        """What it executes with floats in these registers, "f" or "x"."""
        return profile(
            {"xpulpv2": "ri5cy", "xcv": "cv32e40p", "auto": self.isa}[self.encodings],
            registers,
            self.small_floats,
            dot_products=self.dot_products,
            apu_wop=self.rtl_wop,
        )


class FabricControllerSpec(BaseModel):
    """The core outside the cluster, which boots the chip."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    present: bool = setting(True, "", "pulp_soc: fc_subsystem; false: the cluster starts by itself")
    fetch: Literal["ideal", "l2"] = setting(
        "ideal",
        "",
        "pulp_soc: l2, fetch and data meet at L2's banks, measured; ideal: they never do",
    )
    way: Literal["soc3", "soc5"] = setting(
        "soc3",
        "",
        "pulp_soc 3.0.1: lint_2_axi has one access at a time; 5.0.1: axi_demux a load and a store",
    )
    ibex_csrs: bool = setting(
        False,
        "",
        "0x7D1 is mtvec, as programs for PULP's Ibex write it; else RI5CY's stack_start",
    )
    hart_id: int = setting(992, "", "pulp: cluster 31, core 0", ge=0)


class AccessSpec(BaseModel):
    """Ways to registers and between the domains: cycles from a request to its grant."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster_register: int = setting(
        3, "cycles", "data_periph_demux.sv: an access to a cluster peripheral stalls EX", ge=3
    )
    soc_register: int = setting(
        22,
        "cycles",
        f"cluster core to APB; {MEASURED} (pulp_soc 5.0.1): a load; a store 19; 3.0.1: not known",
        ge=5,
        le=200,
    )
    controller_register: int = setting(
        1, "cycles", f"fabric controller to APB; {MEASURED} (pulp_soc 3.0.1)", ge=1, le=200
    )
    controller_to_cluster: int = setting(
        14,
        "cycles",
        f"fabric controller to a cluster register; {MEASURED} (pulp_soc 3.0.1): a load; a store 15",
        ge=3,
        le=200,
    )
    controller_to_l1: int = setting(
        8,
        "cycles",
        f"fabric controller to the cluster's L1 arbiter; {MEASURED} (pulp_soc 3.0.1): 15 with the "
        "way back",
        ge=1,
        le=100,
    )
    l1_to_controller: int = setting(
        7, "cycles", f"and back; {MEASURED}: see controller_to_l1", ge=1, le=100
    )
