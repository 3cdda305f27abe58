from firmware.console import Console as Console
from firmware.drivers import Dma as Dma
from firmware.fork import crew_of as crew_of
from firmware.fork import offload_of as offload_of
from firmware.runtime import new_kernel as new_kernel
from firmware.runtime import team_of as team_of
from isa.program import Program as Program
from pulpsim.api.run import run as run
from pulpsim.api.run import run_many as run_many
from pulpsim.api.study import study as study
from pulpsim.api.tune import tune as tune
from soc.chip.spec import load_chip as load_chip
from soc.config.toml import ConfigError as ConfigError
from soc.debug.session import Session as Session
from soc.run_many import Run as Run
from soc.trace.reader import Trace as Trace
from soc.trace.recorder import Recording as Recording
from trainlib.deploy import SGD as SGD
from trainlib.deploy import Adam as Adam
from trainlib.deploy import AdamW as AdamW
from trainlib.deploy import deploy as deploy
from trainlib.launch import launch as launch

__version__: str
