"""Memory of a training step: what is planned, and that the replay finds what is wrong."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from soc.chip.spec import SocSpec, load_chip
from trainlib.deploy import SGD, Deployed, DeployError, Graph, deploy
from trainlib.deploy.gradient import differentiate
from trainlib.deploy.graph.registry import add_node
from trainlib.deploy.interpret import Interpreter
from trainlib.deploy.memory import ALIGNED, Block, plan
from trainlib.deploy.program import build
from trainlib.deploy.replay import Emitted, replayed
from trainlib.deploy.step import training


def perceptron(widths=(12, 16, 8, 4)) -> Graph:
    """Linear layers with ReLUs between them, and a mean squared error."""
    numbers = np.random.default_rng(1)
    g = Graph()
    y = g.add("x", (2, widths[0]), "input")
    for n, (inputs, outputs) in enumerate(pairwise(widths)):
        shapes = {f"{n}.weight": (outputs, inputs), f"{n}.bias": (outputs,)}
        for name, shape in shapes.items():
            g.add(name, shape, "parameter", array=numbers.standard_normal(shape) / 4)
        weights = {"W": f"{n}.weight", "bias": f"{n}.bias"}
        y = add_node(g, "linear_fw", {"X": y, **weights}, layer=f"{n}")["Y"]
        if n < len(widths) - 2:
            y = add_node(g, "relu_fw", {"x": y}, layer=f"{n}.relu")["y"]
    target = g.add("target", (2, widths[-1]), "input")
    g.loss = add_node(g, "mse_loss", {"x": y, "t": target}, layer="loss")["loss"]
    g.trained = tuple(v.name for v in g.of_role("parameter"))
    return g


@pytest.fixture(scope="module")
def built():
    return build(training(perceptron(), SGD(lr=0.1)), load_chip("pulp"))


def faults(built, **changed):
    schedule = built.schedule
    given = {
        "nodes": schedule.nodes,
        "calls": built.calls,
        "addresses": built.addresses,
        "kept": schedule.kept,
    } | changed
    extent = built.memory.start, built.memory.end
    return replayed(schedule.reference, schedule.reference.nodes, *given.values(), extent)


def joining(batch):
    """Two maps of x, a parameter's and x itself after each other along channels; weighted."""
    g, numbers = Graph(), np.random.default_rng(2)
    x = g.add("x", (batch, 2, 4, 4), "input")
    g.add("token", (batch, 2, 4, 4), "parameter", array=numbers.standard_normal((batch, 2, 4, 4)))
    scaled = add_node(g, "multiply", {"a": x, "b": "token"}, layer="scale")["y"]
    a = add_node(g, "tanh_fw", {"x": scaled}, layer="a")["y"]
    b = add_node(g, "relu_fw", {"x": a}, layer="b")["y"]
    parts = {"x0": a, "x1": "token", "x2": b}
    y = add_node(g, "concat", parts, {"axis": 1}, layer="join")["y"]
    target = g.add("target", (batch, 6, 4, 4), "input")
    g.loss = add_node(g, "mse_loss", {"x": y, "t": target}, layer="loss")["loss"]
    g.trained = ("token",)
    return g


@pytest.mark.parametrize("batch", [1, 2])
def test_what_is_joined_in_one_piece_is_written_where_it_comes_to_lie(batch):
    graph = joining(batch)
    deployed = Deployed(graph, SGD(lr=0.5), load_chip("pulp"), accumulate=2)
    schedule = deployed.schedule
    ops = [node.op for node in schedule.sections[0].nodes if node.layer == "join"]
    assert ops == (["slice"] if batch == 1 else ["concat", *["slice"] * 3])
    if batch == 1:
        join = next(node for node in schedule.nodes if node.op == "mse_loss").inputs["x"]
        roots = [node.outputs["y"] for node in schedule.nodes[:3]]
        assert {schedule.graph.root(name) for name in roots[1:]} == {join}
    assert deployed.built().faults() == []
    numbers = np.random.default_rng(3)
    batches = [
        tuple(numbers.standard_normal((batch, n, 4, 4)).astype(np.float32) for n in (2, 6))
        for _ in range(2)
    ]
    found = deployed.train(batches).weights["token"]
    plain, total = differentiate(graph), 0.0
    for x, target in batches:
        interpreter = Interpreter(plain, {"x": x, "target": target})
        interpreter.run()
        total = total + interpreter.get(plain.gradients["token"])
    np.testing.assert_allclose(found, graph.arrays["token"] - 0.5 * total, 0, 1e-6)


def test_a_part_that_is_written_over_another_one_is_found():
    built = build(training(joining(1), SGD(lr=0.5)), load_chip("pulp"))
    place = next(n for n, c in enumerate(built.calls) if c.call.region == "b forward")
    call = built.calls[place]
    wrong = replace(call, addresses={**call.addresses, "y": call.addresses["y"] - 16})
    found = faults(built, calls=[wrong if c is call else c for c in built.calls])
    assert found[0].startswith("loss forward, mse_loss_f32: x must be element 64 of join.y")


def test_blocks_that_are_there_at_the_same_time_do_not_overlap():
    numbers = np.random.default_rng(3)
    blocks = []
    for n in range(60):
        first = int(numbers.integers(50))
        last = first + int(numbers.integers(8))
        blocks.append(Block(f"b{n}", 4 * int(numbers.integers(1, 300)), first, last))
    memory = plan([Block("weights", 100, 0, 99)], blocks, 0x1C020000)
    placed = list(memory.blocks.values())
    for n, a in enumerate(placed):
        assert a.address % ALIGNED == 0
        for b in placed[:n]:
            assert not a.meets(b) or a.end <= b.address or b.end <= a.address
    assert memory.live <= memory.peak < 1.2 * memory.live


def test_a_chain_takes_as_much_as_lives_at_the_same_time():
    chain = [Block(f"y{n}", 64 * (1 + n % 2), n, n + 1) for n in range(20)]
    memory = plan([], chain, 0)
    assert memory.peak == memory.live == 64 * 3


def test_the_records_of_a_program_pass_the_replay(built):
    assert built.faults() == []


@pytest.mark.parametrize("accumulate", [2, 3])
def test_the_records_of_a_program_that_accumulates_pass_the_replay(accumulate):
    schedule = training(perceptron(), SGD(lr=0.1, momentum=0.9), accumulate=accumulate, mean=True)
    assert build(schedule, load_chip("pulp")).faults() == []


def test_the_replay_finds_a_value_that_lies_where_another_one_lives(built):
    schedule = built.schedule
    wrong = dict(built.addresses)
    place, other = wrong["1.relu.y"], wrong["0.relu.y"]
    moved = [
        replace(
            emitted,
            addresses={n: other if a == place else a for n, a in emitted.addresses.items()},
        )
        for emitted in built.calls
    ]
    found = faults(built, calls=moved)
    assert schedule.graph.place("1.relu.y") != schedule.graph.place("0.relu.y")
    assert "element 0 of 0.relu.y, version 1" in found[0]


def test_the_replay_finds_an_update_before_the_last_use(built):
    nodes = built.schedule.nodes
    update = next(i for i, n in enumerate(nodes) if n.inputs.get("w") == "1.weight")
    reader = next(i for i, n in enumerate(nodes) if n.op == "linear_ig" and n.reads("1.weight"))
    assert reader < update
    calls = list(built.calls)
    for swapped in (nodes, calls):
        swapped[reader], swapped[update] = swapped[update], swapped[reader]
    assert faults(built, nodes=nodes, calls=calls)[0] == (
        "1 backward, linear_ig_f32: W must be element 0 of 1.weight, version 0, and finds element "
        "0 of 1.weight, version 1"
    )


def test_the_replay_finds_a_stale_record(built):
    calls = list(built.calls)
    number = next(i for i, c in enumerate(calls) if c.call.kernel == "linear_wg_f32")
    stale = {**calls[number].addresses, "X": calls[number].addresses["X"] + 64}
    calls[number] = Emitted(calls[number].call, stale)
    found = faults(built, calls=calls)
    assert found[0].startswith(
        "2 backward, linear_wg_f32: X must be element 0 of 1.relu.y, version 1"
    )
    outside = {**calls[number].addresses, "dW": built.memory.end}
    calls[number] = Emitted(calls[number].call, outside)
    assert any("outside of the values' memory" in fault for fault in faults(built, calls=calls))


@pytest.mark.parametrize(
    ("optimizer", "kernel"),
    [
        (SGD(lr=0.1), "sgd"),
        (SGD(lr=0.1, weight_decay=0.1), "sgd"),
        (SGD(lr=0.1, momentum=0.9), "sgd_momentum"),
        (SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1), "sgd_momentum"),
    ],
)
def test_gradients_of_linear_layers_change_their_weights_where_they_arise(optimizer, kernel):
    schedule = training(perceptron(), optimizer, fits=lambda graph, node: True)
    updates = [node for node in schedule.nodes if node.step == "update"]
    assert [node.op for node in updates] == ["linear_wg"] * 3
    assert updates[0].inputs["dW"] == "2.weight"
    plain = training(perceptron(), optimizer)
    assert [n.op for n in plain.nodes if n.step == "update"] == [kernel] * 6
    before, after = (interpreted(s) for s in (plain, schedule))
    for name in (v.name for v in plain.graph.of_role("parameter", "state")):
        np.testing.assert_allclose(after.get(name), before.get(name), 1e-7, 1e-9)


@pytest.mark.parametrize(
    ("optimizer", "how"),
    [
        (SGD(lr=0.1, clip_norm=1.0), {}),
        (SGD(lr=0.1, momentum=0.9), {"keeps_gradients": True}),
        (SGD(lr=0.1), {"accumulate": 2}),
    ],
)
def test_gradients_that_something_else_needs_are_not_fused(optimizer, how):
    schedule = training(perceptron(), optimizer, fits=lambda graph, node: True, **how)
    assert not any("scale" in node.attributes for node in schedule.nodes)
    assert {"sgd", "sgd_momentum"} & {node.op for node in schedule.nodes}


def interpreted(schedule):
    """The values after a step."""
    numbers = np.random.default_rng(2)
    x, target = numbers.standard_normal((2, 12)), numbers.standard_normal((2, 4))
    interpreter = Interpreter(schedule.reference, {"x": x, "target": target})
    interpreter.run()
    return interpreter


def test_what_does_not_fit_l2_is_refused_with_what_it_takes():
    schedule = training(perceptron((512, 512, 512)), SGD(lr=0.1))
    chip = load_chip("pulp", {"l2": {"size": 1 << 20}})
    message = (
        r"^the step needs [\d,]+ bytes of L2, there are 1,048,576: [\d,]+ for values \([\d,]+ of "
        r"them stay\), [\d,]+ for code, [\d,]+ for tables; take smaller batches and accumulate, "
        r"freeze layers, or take a chip with a larger l2\.size$"
    )
    with pytest.raises(DeployError, match=message):
        build(schedule, chip)


def test_a_small_network_trains_on_a_chip_with_little_l2():
    deployed = Deployed(perceptron(), SGD(lr=0.1), load_chip("pulp", {"l2": {"size": 96 << 10}}))
    assert deployed.built().faults() == []


@pytest.mark.parametrize("size", [66000, 66 << 10, 66 << 10 | 1 << 11])
def test_code_that_is_larger_than_l2_is_refused(size):
    deployed = Deployed(perceptron(), SGD(lr=0.1), load_chip("pulp", {"l2": {"size": size}}))
    message = (
        r"^the step's code needs [\d,]+ bytes of L2, there are 6\d,\d{3}, 65,664 of them before "
        r"code: take a chip with a larger l2\.size, or fewer layers that differ$"
    )
    with pytest.raises(DeployError, match=message):
        deployed.built()


def test_tables_and_batches_that_are_larger_than_l2_are_refused_with_what_the_step_takes():
    deployed = Deployed(perceptron(), SGD(lr=0.1), load_chip("pulp", {"l2": {"size": 74 << 10}}))
    message = (
        r"^the step needs [\d,]+ bytes of L2, there are 75,776: [\d,]+ for values \([\d,]+ of them "
        r"stay\), [\d,]+ for code, [\d,]+ for tables, [\d,]+ for batches and losses; take fewer "
        r"batches and steps, smaller batches and accumulate, freeze layers, or take a chip with a "
        r"larger l2\.size; the HyperRAM does not help: .* takes [\d,]+ bytes at once, .*$"
    )
    [x, target] = deployed.graph.of_role("input")
    batch = np.zeros(x.shape, np.float32), np.zeros(target.shape, np.int32)
    with pytest.raises(DeployError, match=message):
        deployed.with_data([batch] * 40)


def test_nothing_that_learns_is_refused():
    graph = perceptron()
    graph.trained = ()
    with pytest.raises(DeployError, match=r"^no parameter learns: all have requires_grad = False$"):
        training(graph, SGD(lr=0.1))


def test_a_number_of_batches_that_is_none_is_refused():
    with pytest.raises(DeployError, match=r"^accumulate = 0; it is a number of batches from 1 on$"):
        training(perceptron(), SGD(lr=0.1), accumulate=0)


def residual() -> Graph:
    """A convolution, a norm and a ReLU; another convolution and a shortcut; a ReLU; a loss."""
    numbers = np.random.default_rng(2)
    g = Graph()
    x, shape = g.add("x", (1, 2, 4, 4), "input"), (2, 2, 3, 3)
    names = ("first", "second", "third")
    for name in names:
        g.add(f"{name}.weight", shape, "parameter", array=numbers.standard_normal(shape) / 4)

    def convolution(name: str, y: str) -> str:
        inputs = {"X": y, "W": f"{name}.weight"}
        return add_node(g, "conv2d_fw", inputs, {"padding": (1, 1, 1, 1)}, layer=name)["Y"]

    start = add_node(g, "relu_fw", {"x": convolution("first", x)}, layer="start")["y"]
    norm = {"gamma": np.ones(2), "beta": np.zeros(2)}
    for name, value in norm.items():
        g.add(name, (2,), "parameter", array=value)
    statistics = ("running_mean", "running_var")
    for name in statistics:
        g.add(name, (2,), "buffer", array=np.ones(2))
    inputs = {"x": convolution("second", start), **{n: n for n in (*norm, *statistics)}}
    y = add_node(g, "batchnorm_fw", inputs, layer="norm")["y"]
    y = convolution("third", add_node(g, "relu_fw", {"x": y}, layer="norm.relu")["y"])
    y = add_node(g, "add", {"a": y, "b": start}, layer="sum")["y"]
    y = add_node(g, "relu_fw", {"x": y}, layer="sum.relu")["y"]
    target = g.add("target", (1, 2, 4, 4), "input")
    g.loss = add_node(g, "mse_loss", {"x": y, "t": target}, layer="loss")["loss"]
    g.trained = tuple(v.name for v in g.of_role("parameter"))
    return g


def test_relus_and_sums_go_into_their_neighbours_and_mean_the_same():
    graph = residual()
    schedule = training(graph, SGD(lr=0.1))
    ops = [(node.op, node.layer) for node in schedule.nodes if node.attributes.get("relu")]
    assert ops == [("batchnorm_fw", "norm"), ("add", "sum"), ("batchnorm_bw", "norm")]
    assert [n.layer for n in schedule.nodes if n.op == "relu_fw"] == ["start"]
    adding = [n.layer for n in schedule.nodes if n.attributes.get("accumulate")]
    assert adding == ["second"]
    assert [n.op for n in schedule.nodes if n.op == "add"] == ["add"]
    differentiated = differentiate(graph)
    numbers = np.random.default_rng(7)
    data = {n: numbers.standard_normal((1, 2, 4, 4)) for n in ("x", "target")}
    wanted, found = Interpreter(differentiated, data), Interpreter(schedule.reference, data)
    wanted.run()
    found.run([node for node in schedule.reference.nodes if node.step != "update"])
    for name, gradient in differentiated.gradients.items():
        other = found.get(schedule.graph.gradients[name])
        np.testing.assert_allclose(other, wanted.get(gradient), 1e-12, 1e-15)


def test_fused_passes_survive_the_replay_and_train_as_they_mean():
    deployed = Deployed(residual(), SGD(lr=0.1), load_chip("pulp"))
    assert deployed.built().faults() == []
    assert {n.op for n in deployed.schedule.nodes if n.step == "update"} == {"conv2d_wg", "sgd"}
    numbers = np.random.default_rng(7)
    x, target = numbers.standard_normal((2, 1, 2, 4, 4), np.float32)
    trained = deployed.train([(x, target)] * 2)
    interpreter = Interpreter(deployed.schedule.reference, {"x": x, "target": target})
    for _ in range(2):
        interpreter.run()
    for name in deployed.schedule.graph.trained:
        np.testing.assert_allclose(trained.weights[name], interpreter.get(name), 1e-5, 1e-6)


def deep(chip: SocSpec, accumulate: int = 1) -> Deployed:
    """Six convolutions with norms and ReLUs, for a chip."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    nn = torch.nn
    layers = [
        layer
        for _ in range(6)
        for layer in (nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    ]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    batch = torch.randn(2, 8, 32, 32), torch.randn(2, 8)
    how = {"loss": nn.functional.mse_loss, "optimizer": SGD(lr=0.1), "chip": chip}
    return deploy(model, batch=batch, accumulate=accumulate, **how)


@pytest.mark.parametrize("batches", [1, 2])
def test_a_step_that_does_not_fit_computes_norms_again_to_the_same_bits(batches):
    numbers = np.random.default_rng(5)
    x, target = (numbers.standard_normal(s, np.float32) for s in ((2, 8, 32, 32), (2, 8)))
    wide = deep(load_chip("pulp"), batches)
    needed = wide.memory.peak + wide.memory.code + wide.memory.tables
    least = {"l2": {"size": (needed + (1 << 16)) // (1 << 12) << 12}}
    tight = deep(load_chip("pulp", least), batches)
    assert tight.memory.peak < wide.memory.peak
    again = [node.op for node in tight.schedule.nodes if node.op == "batchnorm_apply"]
    assert 0 < len(again) <= 6 * batches
    assert tight.built().faults() == []
    wanted, found = (deployed.train([(x, target)] * 2) for deployed in (wide, tight))
    assert found.losses == wanted.losses
    for name, array in wanted.weights.items():
        np.testing.assert_array_equal(found.weights[name], array)


def test_a_refusal_says_what_recomputation_would_need():
    message = (
        r"^the step needs [\d,]+ bytes of L2, there are 262,144: .*; with recomputation it needs "
        r"[\d,]+; the HyperRAM does not help: layer \S+, backward \(\w+\) takes [\d,]+ bytes at "
        r"once, there are [\d,]+ beside code and tables$"
    )
    with pytest.raises(DeployError, match=message):
        deep(load_chip("pulp", {"l2": {"size": 1 << 18}})).built()


def test_a_refusal_says_where_the_hyperram_cannot_be_used(monkeypatch):
    monkeypatch.setattr("trainlib.deploy.planner.UNROLLED", 20)
    message = (
        r"; the HyperRAM does not help: copies are in one order, and batches of the step repeat "
        r"nodes: accumulate fewer$"
    )
    with pytest.raises(DeployError, match=message):
        deep(load_chip("pulp", {"l2": {"size": 1 << 18}}), 3).built()
