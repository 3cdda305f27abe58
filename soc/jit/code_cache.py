"""The code cache: what simulations share of hot code, machine code and profiles.

Each simulation is given one. SHARED is that of all that are given none: what one of them has
translated serves the others, and other processes by way of the cache folder.
"""

import subprocess
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from soc.aot.cache import key
from soc.aot.loader import define
from soc.aot.units import FLOATS
from soc.engine.interpreter import Interpreter
from soc.host import signals
from soc.host.cache_folder import cache_folder, is_temporary
from soc.host.compile_process import start, stop
from soc.jit.emit_llvm import PURE_SYMBOL
from soc.jit.loaded_code import MACHINE_CODE, LoadedCode
from soc.jit.profile import Profile
from soc.jit.profile_store import POLL_THRESHOLD, ProfileStore
from soc.jit.translation import Batch, digest

EMITTER = "soc.jit.emit_llvm"
"""The module that writes superblocks."""

NEVER = 1 << 60
"""A threshold that no count reaches."""


@dataclass(frozen=True)
class Policy:
    """When hot code is translated.

    poll_threshold       interpretations of a row after which the translator is polled for it, and
                         whenever they have doubled; a power of two
    compile_threshold    interpretations after which it is translated: about as long as that takes
    poll_interval        cycles between two polls: what is in a loop becomes hot at about one time
    waits                for what a simulation has started to translate, as tests do
    """

    poll_threshold: int = POLL_THRESHOLD
    compile_threshold: int = 1 << 18
    poll_interval: int = 2000
    waits: bool = False


INTERPRET_ALL = Policy(poll_threshold=NEVER)
"""Translate nothing, and use nothing that is."""


class CodeCache:
    """Machine code of superblocks, profiles of programs, and the process that translates.

    folder      where it keeps machine code; None: the cache folder
    policy      when code is translated
    profiles    of programs; None: kept in the same folder
    """

    def __init__(
        self,
        folder: Path | None = None,
        policy: Policy | None = None,
        profiles: ProfileStore | None = None,
    ):
        self._folder = folder
        self.policy = policy or Policy()
        self.profiles = profiles or ProfileStore(folder)
        self.loaded = LoadedCode()
        self._keys: dict[Interpreter, str] = {}
        self._workers: list[subprocess.Popen] = []
        weakref.finalize(self, _leave_alone, self._workers)

    @property
    def folder(self) -> Path:
        """Where machine code is kept."""
        return self._folder or cache_folder()

    def file(self, content: bytes) -> Path:
        """The file of machine code that is made of this content."""
        return self.folder / f"{MACHINE_CODE}{digest(content)[:32]}"

    def key(self, steps: Interpreter) -> str:
        """A name for the content of the steps, and of what writes superblocks; makes what the steps
        call known to what is loaded.
        """
        if steps not in self._keys:
            for link in FLOATS.links.values():
                define(PURE_SYMBOL.format(link.symbol), FLOATS.address(link.symbol))
            self._keys[steps] = key(steps.name, steps.modules | {EMITTER})
        return self._keys[steps]

    def batch(self, profile: Profile) -> Batch:
        """What of a program's machine code fits the code that its runs have decoded at first."""
        before = self.loaded.again(profile.batch) if profile.batch else None
        return before or self.loaded.batch(profile.translations, profile.decoded_at_first())

    def is_translating(self) -> bool:
        """Is a process at work already? Then the next poll starts another one."""
        if self.policy.waits:
            for each in self._workers:
                each.wait()
        self._workers[:] = [each for each in self._workers if each.poll() is None]
        return bool(self._workers)

    def translate(self, steps: str, texts: Mapping[str, str]) -> None:
        """Start the process that translates these; the machine code comes into their files.

        steps    the unit of the step functions
        texts    LLVM's, by the path of the file
        """
        job = {"unit": steps, "superblocks": dict(texts), "waits": self.policy.waits}
        silent = subprocess.DEVNULL
        try:
            process = start("soc.jit.compile_worker", job, silent, silent)
        except OSError:  # there is no room for another process: the code is interpreted
            return
        self._workers.append(process)
        if self.policy.waits:
            process.wait()
            self.loaded.look_again()


def _leave_alone(workers: list[subprocess.Popen]) -> None:
    """Let them end their work after this process, unless that is interrupted or keeps nothing.

    What they make serves other runs, too, so a simulation does not wait for them at its end.
    """
    for process in [each for each in workers if each.poll() is None]:
        if signals.received or is_temporary():
            stop(process)
        elif process.stdin:
            with suppress(OSError), process.stdin as pipe:
                pipe.write(b".")


SHARED = CodeCache()
"""The code cache of simulations that are given no other."""
