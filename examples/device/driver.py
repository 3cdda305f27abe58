"""The driver of the engine: a program whose core 0 starts it, sleeps, and wakes at its event."""

import numpy as np

import pulpsim as ps

ENGINE, EVENT_UNIT = 0x10201000, 0x10204000
LINE = 12  # accelerator event 0
START, A, FORMAT = 0x00, 0x08, 0x20
MASK_OR, WAIT_CLEAR = 0x08, 0x3C


def product(chip, a, b):
    """A program for C = A @ B^T with both in L1; returns it and C's address.

    a[n, k], b[m, k]    both float32, or both float16
    """
    k = ps.new_kernel(chip)
    (rows, inner), columns = a.shape, b.shape[0]
    places = [k.buffer(k.l1, name, array.nbytes) for name, array in (("a", a), ("b", b))]
    c = k.buffer(k.l1, "c", rows * columns * a.itemsize)
    for place, array in zip(places, (a, b), strict=True):
        k.put(place, array.tobytes())
    with ps.team_of(k, chip, 1):
        engine, unit, value = k.x(3)
        k.li(unit, EVENT_UNIT)
        k.li(value, 1 << LINE)
        k.sw(value, MASK_OR, unit)  # let this line wake the core
        k.li(engine, ENGINE)
        for register, setting in enumerate((*places, c, rows, columns, inner)):
            k.li(value, setting)
            k.sw(value, A + 4 * register, engine)
        k.li(value, int(a.dtype == np.float16))
        k.sw(value, FORMAT, engine)
        with k.region("engine"):
            k.sw(value, START, engine)
            k.p_elw(value, WAIT_CLEAR, unit)  # sleep until it has multiplied
    return k.build(), c
