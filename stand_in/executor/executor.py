"""All parts of the executor in one object, as `stand_in.assembly` and `stand_in.hooks_jobs` use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stand_in.events import Events
from stand_in.executor import moto_gaps
from stand_in.executor.builds import Builds
from stand_in.executor.endpoints import Endpoints
from stand_in.executor.faults import Faults
from stand_in.executor.fleets import Fleets
from stand_in.executor.instances import Instances
from stand_in.executor.modes import choose
from stand_in.executor.site import Site
from stand_in.executor.together import together
from stand_in.lambda_runtime import LambdaRuntime


class Executor:
    """Runs what AWS would run. `base_url` is the stand-in's own address, which the children are given."""

    def __init__(self, *, base_url: str, state_dir: Path, repo_root: Path, mode: str = "direct") -> None:
        moto_gaps.close()
        self.site = Site(base_url=base_url, state_dir=state_dir, repo_root=repo_root)
        self._mode = choose(mode, self.site)
        self.lambdas = LambdaRuntime(self.site)
        self.events = Events(self.site, self.lambdas)
        self.faults = Faults(state_dir)
        self.builds = Builds(self.site, self.events, self.faults, self._mode)
        self.instances = Instances(self.site, self.events, self.faults, self._mode)
        self.endpoints = Endpoints(self.site, self._mode)
        self.fleets = Fleets(self.site, self._mode)

    def state(self) -> dict[str, Any]:
        """The content of `/_torchlift/state`."""
        return {
            "jobs": [one.as_json() for one in self.site.registry.jobs()],
            "endpoints": [one.as_json() for one in self.endpoints.states()],
            "fleets": self.fleets.states(),
            "processes": [vars(one) for one in self.site.registry.processes()],
        }

    def close(self) -> None:
        """End everything that was started here, and wait for it."""
        together([self.builds.close, self.instances.close, self.endpoints.close, self.fleets.close, self.lambdas.close])
        self._mode.close()
