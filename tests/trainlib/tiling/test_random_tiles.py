"""Random shapes, tiles, teams and buffers of primitives that take several passes or halo rows."""

from random import Random

from tests.trainlib.primitives import check

CASES, ALL_CASES = 8, 200


def test_random_tiles_compute_what_they_should_and_write_nothing_else(request):
    random = Random(5)
    count = ALL_CASES if request.config.getoption("--full") else CASES
    for _ in range(count):
        name, shape, most = random.choice(MAKERS)(random)
        how = {
            "tile": {dim: random.randint(1, size) for dim, size in most.items()},
            "cores": random.choice([1, 2, 3, 4, 8]),
            "buffers": random.randint(1, 2),
            "seed": random.randint(0, 99),
        }
        check(name, shape | how)


def direction(random, name):
    return f"{name}_{random.choice(['fw', 'bw'])}_f32"


def recurrent(random):
    dims = ("steps", 4), ("inputs", 9), ("hidden", 17), ("batch", 5)
    shape = {name: random.randint(1, most) for name, most in dims}
    name, gates = random.choice([("rnn", 1), ("lstm", 4), ("gru", 3)])
    tile = {name: shape[name] for name in ("inputs", "batch")}
    tile |= {"rows": shape["batch"], "sums": gates * shape["hidden"]}
    return direction(random, name), shape, tile


def attention(random):
    dims = ("length", 13), ("embed", 9), ("heads", 3), ("size", 5), ("batch", 3)
    shape = {name: random.randint(1, most) for name, most in dims}
    tile = {name: shape[name] for name in ("embed", "heads", "size", "batch")}
    tile |= dict.fromkeys(("rows", "queries", "keys", "scores"), shape["length"])
    return direction(random, "mhsa"), shape, tile


def map_norm(random):
    name = random.choice(["batchnorm", "batchnorm_frozen", "instancenorm"])
    shape = {"b": random.randint(1, 3), "c": random.randint(1, 9), "hw": random.randint(2, 20)}
    return direction(random, name), shape | {"layout": layout(random)}, shape


def group_norm(random):
    groups, size = random.randint(1, 4), random.randint(1, 3)
    tile = {"b": random.randint(1, 3), "hw": random.randint(1, 20)}
    shape = tile | {"c": groups * size, "groups": groups, "layout": layout(random)}
    return direction(random, "groupnorm"), shape, tile | {"groups": groups, "size": size}


def row_norm(random):
    shape = {"rows": random.randint(1, 9), "columns": random.randint(1, 30)}
    return direction(random, random.choice(["layernorm", "rmsnorm"])), shape, shape


def softmax(random):
    shape = [random.randint(1, 9) for _ in range(random.randint(1, 3))]
    tile = {f"d{axis}": size for axis, size in enumerate(shape)}
    return (
        direction(random, "softmax"),
        {"shape": shape, "axis": random.randrange(len(shape))},
        tile,
    )


def cross_entropy(random):
    tile = {"b": random.randint(1, 9), "classes": random.randint(1, 20)}
    return "cross_entropy_loss_f32", tile | {"is_soft": random.random() < 0.5}, tile


def pooling(random):
    kernel = random.randint(1, 4), random.randint(1, 4)
    pad = tuple(random.randint(0, size // 2) for size in kernel)
    shape = {
        "b": random.randint(1, 2),
        "c": random.randint(1, 5),
        "h": random.randint(kernel[0], 12),
        "w": random.randint(kernel[1], 9),
        "kernel": kernel,
        "stride": (random.randint(1, 5), random.randint(1, 4)),
        "pad": pad,
        "layout": layout(random),
    }
    name = direction(random, random.choice(["maxpool2d", "avgpool2d"]))
    rows = shape["h"]
    if "fw" in name:
        rows = (rows + 2 * pad[0] - kernel[0]) // shape["stride"][0] + 1
    return name, shape, {"b": shape["b"], "c": shape["c"], "y": rows}


def interpolation(random):
    shape = {name: random.randint(1, most) for name, most in (("c", 5), ("h", 12), ("w", 9))}
    shape["out"] = random.randint(1, 15), random.randint(1, 12)
    tile = {"c": shape["c"], "y": min(shape["h"], shape["out"][0])}
    name = random.choice(["nearest", "bilinear"])
    if name == "bilinear":
        shape["aligned"] = random.random() < 0.5
    return direction(random, name), shape | {"layout": layout(random)}, tile


def embedding(random):
    dims = ("entries", 9), ("columns", 9), ("tokens", 12)
    shape = {name: random.randint(1, most) for name, most in dims}
    return direction(random, "embedding"), shape, shape


def layout(random):
    return random.choice(["chw", "hwc"])


MAKERS = (
    recurrent,
    attention,
    map_norm,
    group_norm,
    row_norm,
    softmax,
    cross_entropy,
    pooling,
    interpolation,
    embedding,
)
