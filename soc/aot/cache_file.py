"""Files in the cache folder: each appears whole, and is read only if it is what was written."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from soc.host.cache_folder import PART, is_ours
from soc.host.temporary import replaced


def keep(file: Path, content: bytes, most: int) -> None:
    """Write a file; of more than `most` whose names begin alike, up to a dash, the oldest go."""
    is_new = not file.exists()
    with replaced(file, PART, 0o600) as stream:
        stream.write(hashlib.sha256(content).digest() + content)
    if is_new:
        kind = file.name.partition("-")[0]
        files = list(file.parent.glob(f"{kind}-*"))
        if len(files) > most:
            for other in sorted(files, key=os.path.getmtime)[:-most]:
                other.unlink(missing_ok=True)


def kept(file: Path) -> bytes | None:
    """What is in a file, if there is one and it is what we have written; else it is deleted."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, content = content[:32], content[32:]
    if is_ours(file) and hashlib.sha256(content).digest() == digest:
        return content
    with suppress(OSError):
        file.unlink()
    return None
