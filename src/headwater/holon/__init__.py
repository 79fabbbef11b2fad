"""Programs without a coordinator: `run` runs one in this process, for trying it out and for tests."""

from headwater.holon.run import Outputs, run

__all__ = ["Outputs", "run"]
