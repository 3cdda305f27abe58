"""Profiles of programs, in this process and in files for others: those that are worth it."""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from soc.aot.cache_file import keep, kept
from soc.core.decode_cache import CodeMemory
from soc.host.cache_folder import cache_folder
from soc.jit.profile import Profile
from soc.jit.translation import digest, file_names

PROGRAMS = 256
"""Programs that have a profile in a process; the oldest make room."""

FILES = 1024
"""Profiles that are kept for other processes; the oldest make room."""

BEGINNING = 1 << 13
"""Halfwords by which a program is known."""

POLL_THRESHOLD = 1 << 12
"""Interpretations of a superblock after which the translator is polled; a power of two."""

WORTH_KEEPING = 1 << 15
"""Interpretations of a row of a program whose profile is kept."""

FORMAT = 4
"""Of the files."""


def keep_latest(found: dict, key: Any, value: Any, most: int) -> None:
    """Keep a value; of more than `most`, the oldest make room. Threads may do so at once."""
    found.pop(key, None)
    found[key] = value
    for oldest in list(found)[:-most]:
        found.pop(oldest, None)


class Worth(NamedTuple):
    """Why it is worth to keep a profile again: other translations, or polls that it saves.

    files       of machine code
    doublings   of the counts of rows, above the threshold: at each the translator is polled
    """

    files: frozenset[str]
    doublings: int


Name = tuple[str, bytes]
"""By what a program is known: the kind of steps, a digest of how it begins. No more than a hint."""


class ProfileStore:
    """Profiles of the programs that this process has run, and those that others have kept.

    folder            of files; None: the cache folder
    files             profiles kept there at most; 0: none
    worth_keeping     interpretations of a row of a program whose profile is kept
    poll_threshold    from which on the doublings of a count are reasons to keep it again
    beginning         halfwords by which a program is known
    """

    def __init__(
        self,
        folder: Path | None = None,
        files: int = FILES,
        worth_keeping: int = WORTH_KEEPING,
        poll_threshold: int = POLL_THRESHOLD,
        beginning: int = BEGINNING,
    ):
        self._folder, self.files, self.beginning = folder, files, beginning
        self.worth_keeping, self.poll_threshold = worth_keeping, poll_threshold
        self.profiles: dict[Name, Profile] = {}
        self._kept: dict[Name, Worth] = {}
        self._digests: dict[bytes, bytes] = {}

    def name(self, kind: str, code: CodeMemory, first: int) -> Name:
        """By what a program is known that begins with this row."""
        halves = code.halves[first : first + self.beginning]
        content = code.chip.config.tobytes() + halves.tobytes()
        digest = self._digests.get(content)
        if digest is None:
            digest = hashlib.sha256(content).digest()
            keep_latest(self._digests, content, digest, PROGRAMS)
        return kind, digest

    def file(self, name: Name) -> Path:
        """Where the profile of a program is kept."""
        kind, program = name
        folder = self._folder or cache_folder()
        return folder / f"profile-{digest(f'{FORMAT} {kind} '.encode() + program)[:32]}"

    def recall(self, name: Name, folder: Path) -> Profile | None:
        """The profile of a program: of this process, or else of others before it.

        folder    of the machine code
        """
        if name not in self.profiles and self.files:
            content = kept(self.file(name))
            if content is not None:
                profile = Profile.from_bytes(content, folder)
                keep_latest(self.profiles, name, profile, PROGRAMS)
                keep_latest(self._kept, name, self._worth(profile), PROGRAMS)
        return self.profiles.get(name)

    def remember(self, name: Name, profile: Profile) -> None:
        """Let the next run of a program have this profile; other processes, too, if that pays."""
        keep_latest(self.profiles, name, profile, PROGRAMS)
        if not self.files:
            return
        worth, before = self._worth(profile), self._kept.get(name, Worth(frozenset(), 0))
        if worth.files != before.files or worth.doublings > before.doublings:
            with suppress(OSError):
                keep(self.file(name), profile.to_bytes(), self.files)
            keep_latest(self._kept, name, worth, PROGRAMS)

    def _worth(self, profile: Profile) -> Worth:
        batch, counts = profile.batch, profile.counts
        files = batch.files if batch else file_names(profile.translations)
        is_hot = counts.max(initial=0) >= self.worth_keeping
        polled = counts[counts >= self.poll_threshold] if is_hot else np.zeros(0, np.int64)
        return Worth(files, int(np.frexp(polled // self.poll_threshold)[1].sum()))
