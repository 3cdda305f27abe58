"""Conflicts at the banks by instruction: how often, and how far apart the cores' addresses were."""

import numpy as np

from soc.prelude.step import cold_step, inlined_step


@inlined_step
def _site(chip, pc):
    return chip.sites[np.uint64(pc - chip.config[0]["code_base"]) >> np.uint64(1)]


@inlined_step
def note_access(chip, hart, address, pc):
    """Count an access by its instruction."""
    site = _site(chip, pc)
    site["accesses"] += 1
    site["last"][hart] = address


@cold_step
def note_conflict(chip, initiator, winner, pc, address):
    """A core has lost a bank; to another one at the same instruction, if that has a last address.

    How far their addresses are apart, from one core to the next, is put to the vote: a distance
    that more than half of the conflicts have wins.
    """
    if pc == 0:
        return
    site = _site(chip, pc)
    site["conflicts"] += 1
    cores = chip.config[0]["cores"]
    if max(initiator, winner) >= cores or initiator == winner or site["last"][winner] == 0:
        return
    distance = (address - int(site["last"][winner])) // (initiator - winner)
    if site["votes"] == 0:
        site["distance"] = distance
    site["votes"] += 1 if site["distance"] == distance else -1
