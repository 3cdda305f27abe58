"""Tables of steps: what their words are for; where they leave no room in L2, tiles that nobody asks
for are chosen so that they run.

The gradients are those of torch in float64.
"""

import re
from itertools import accumulate, chain, pairwise, zip_longest

import numpy as np
import pytest

from firmware.builder import KernelError
from firmware.drivers import FIELDS
from soc.chip.spec import load_chip
from tests.trainlib.tiling.test_functions import SHARED, called
from trainlib.launch import launch, program
from trainlib.tiling.tile_loop import Walk

IMAGE = {"height": 21, "width": 24, "inputs": 7, "outputs": 5, "kernel": (5, 5)}
SHORT = (
    ("conv2d_fw_f32", {"height": 10, "width": 19, "inputs": 13, "outputs": 12, "kernel": (7, 7)}),
    ("tconv2d_ig_f32", IMAGE),
    ("dwconv2d_wg_f32", {"height": 16, "width": 24, "inputs": 20, "kernel": (7, 7)}),
)


def chip(l2_size, l1_size=0x3000):
    return load_chip("pulp", {"l1.size": l1_size, "l2.size": l2_size})


@pytest.mark.parametrize(("kernel", "point"), SHORT)
def test_a_chosen_tile_leaves_room_for_its_table(kernel, point):
    _, report = launch(kernel, point, chip(0x30000), guard=64)
    assert report.is_correct
    assert report.stray_writes == []
    assert "dma_wait" in report.regions


def test_a_wide_transposed_gradient_runs_without_a_tile(request):
    if not request.config.getoption("--full"):
        pytest.skip("29 million cycles")
    torch = pytest.importorskip("torch")
    point = {"height": 59, "width": 29, "inputs": 87, "outputs": 8, "kernel": (11, 11)}
    how = {"stride": (2, 2), "padding": (0, 1, 2, 1), "output_padding": (1, 1), "layout": "hwc"}
    values, report = launch("tconv2d_ig_f32", point | how | {"accumulate": True})
    assert report.is_correct
    built = program("tconv2d_ig_f32", point | how | {"accumulate": True})
    dy, w, dx = (torch.tensor(built.inputs[n].astype(float)) for n in ("dY", "W", "dX"))
    wide = torch.nn.functional.pad(dy.permute(0, 3, 1, 2), (2, 1, 0, 1))
    exact = torch.nn.functional.conv2d(wide, w.permute(0, 3, 1, 2), stride=2)[..., :59, :29]
    np.testing.assert_allclose(values["dX"], dx + exact.permute(0, 2, 3, 1), atol=1e-2)


def test_a_table_for_which_there_is_no_room_is_told():
    message = (
        "conv2d_fw_f32: tiles of n = 1, y = 4, x = 13, co = 2, ci = 1 need 7624 bytes of L2 for "
        "their schedule, 6464 are left; larger ones need fewer, if L1 has room for them"
    )
    with pytest.raises(KernelError, match=f"^{re.escape(message)}$"):
        program("conv2d_fw_f32", SHORT[0][1], chip(0x2C200))


def tables(monkeypatch, make):
    """The plan and the words of each table in the program that is made."""
    plans, emit = [], Walk.emit

    def planned(walk):
        plans.append(walk.plan)
        emit(walk)

    monkeypatch.setattr(Walk, "emit", planned)
    built = make()
    places = [symbol for symbol in built.symbols if symbol.name == "schedule"]
    for plan, place in zip(plans, places, strict=True):
        words = np.frombuffer(built.bytes_at(place.address, place.size), "<u4")
        yield plan, place.address, words.tolist()


def block(words, length, is_relative):
    """The commands at the start of a block that has so many words, or commands if relative."""
    found, at = [], 0
    while (len(found) if is_relative else at) < length:
        sides = [bool(words[at] & FIELDS[name].mask) for name in ("l2_2d", "l1_2d")]
        assert sides[0] == sides[1]  # lines on both sides, or on none
        found.append(words[at : at + 3 + 4 * sides[0]])
        at += len(found[-1])
    return found


@pytest.mark.parametrize(
    "case",
    ["copies ahead", "lines", "lines on both sides", "columns", "phases", "buffers between phases"],
)
@pytest.mark.parametrize("is_relative", [False, True])
def test_entries_are_as_long_as_their_commands(monkeypatch, case, is_relative):
    def make():
        kernel, arguments, on = SHARED[case]
        how = kernel, arguments, on
        return called(*how, times=1)[0] if is_relative else program(*how).program

    for plan, start, words in tables(monkeypatch, make):
        places = [at // 4 for at in accumulate(plan.lengths, initial=0)]
        assert places[-1] == len(words)
        for number, (first, end) in enumerate(pairwise(places)):
            entry, at = words[first:end], plan.first_block // 4
            commands = []
            for count in entry[plan.counts // 4 : at]:
                if count:
                    assert count >> 16 == 4 * at
                    commands.append(block(entry[at:], count & 0xFFFF, is_relative))
                    at += sum(map(len, commands[-1]))
            assert number == 0 or at == len(entry)
            assert entry[at:] == [0] * (len(entry) - at)
            turns = [*chain(*zip_longest(*commands))]  # the second of each core after all first
            started = [command for command in turns if command]
            sizes = [command[0] & FIELDS["length"].mask for command in started]
            assert len(sizes) <= plan.issuers or plan.is_ahead or sizes == sorted(sizes)
            if number + 2 < plan.entries and not is_relative:
                fetched = plan.lengths[number + 2], start + 4 * places[number + 2]
                far = (command[2] for command in started)
                assert [*zip(sizes, far, strict=True)].count(fetched) == 1


def test_an_entry_that_no_half_can_tell_is_refused():
    point = {"batch": 54, "inputs": 55, "height": 56, "width": 2, "outputs": 2, "kernel": 1}
    tile = {"n": 54, "ci": 54, "y": 55, "x": 1}
    large = chip(1 << 23, 1 << 20)
    message = "after the start of an entry, where less than 65536 can be told; take smaller tiles"
    with pytest.raises(KernelError, match=rf"^conv2d_fw_f32: commands \d+ bytes {message}$"):
        program("conv2d_fw_f32", point | {"tile": tile, "buffers": 1}, large)
