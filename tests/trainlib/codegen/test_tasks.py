"""Blocks of sums as tasks of cores: which there are, who has them, and their table."""

from trainlib.codegen.tasks import END, Block, Shares, Task, tasks_of


def test_tasks_are_all_blocks_and_taps():
    tasks = list(tasks_of((5, 3), Block(2, 2), 2))
    assert len(tasks) == 3 * 2 * 2
    assert tasks[:3] == [
        Task(Block(2, 2), 0, 0, 0),
        Task(Block(2, 2), 0, 0, 1),
        Task(Block(2, 1), 0, 2, 0),
    ]
    assert sum(t.block.rows * t.block.channels for t in tasks) == 5 * 3 * 2


def test_the_longest_tasks_come_first_and_each_to_the_core_with_the_least_to_do():
    block = Block(1, 1)
    tasks = [(cycles, Task(block, row, 0, 0)) for row, cycles in enumerate((3, 5, 2, 4))]
    shares = Shares.of(tasks, 2)
    assert shares.cycles == 7
    assert [[task.row for task in own] for own in shares.cores] == [[1, 2], [3, 0]]


def test_each_core_has_its_tasks_by_blocks_with_an_end_after_those_of_each():
    one, two = Task(Block(1, 1), 0, 0, 0), Task(Block(2, 1), 1, 0, 0)
    table, size = Shares([[one, two], [two]], 0).table({one: (1, 2), two: (3, 4)})
    words = [int.from_bytes(table[at : at + 4], "little") for at in range(0, len(table), 4)]
    assert size == 4 * 8
    assert words == [3, 4, 0, END, 1, 2, 0, END, 3, 4, 0, END, 0, END, 0, END]
