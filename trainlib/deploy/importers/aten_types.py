"""ATen's conversions as nodes. Integers that are computed are floats without a fraction."""

from typing import Any

from trainlib.deploy.importers.aten_choices import differs
from trainlib.deploy.importers.aten_functions import truncated
from trainlib.deploy.importers.aten_importer import Importer, Rule


def _to(i: Importer, x: Any, given: Any = None, *_: Any, dtype: Any = None, **__: Any) -> str:
    """Elements of another type: floats as integers lose their fractions, as truth values they are
    1 where they are not 0.
    """
    name, wanted = i.name(x), dtype or given
    if wanted is None:
        return name
    if str(wanted) == "torch.bool":
        return name if i.is_truth(x) else i.graph.stop(differs(i, name, i.constant([0.0])))
    if wanted.is_floating_point:
        return i.as_floats(name)
    return name if i.is_whole(x) else truncated(i, name)


def _to_other(i: Importer, x: Any, other: Any, *_: Any, **__: Any) -> str:
    return _to(i, x, other.meta["val"].dtype)


RULES: dict[str, Rule] = {
    "_to_copy": _to,
    "to.dtype": _to,
    "to.other": _to_other,
    "type_as": _to_other,
}
