"""What a coven under load is configured to be, and how the world behaves, from one seed."""

from __future__ import annotations

from random import Random

import msgspec


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """`fails` is the share of requests to the crystal that fail and are made again; `holds` that of meetings with the
    world that are held until something else has happened. `timeout` is in seconds. With a `door` people ask over HTTP,
    too, and whatever does not run is run there. Without `rivals` nobody starts a service twice: then all that live at
    the end have to finish the work as they are. A `shared` server is that of the services themselves.
    """

    medium: str
    independent: bool
    approve: tuple[str, ...]
    timeout: float
    fails: float
    holds: float
    door: bool
    rivals: bool
    shared: bool

    def configured(self, text: str, name: str) -> str:
        """The `coven.yaml` of a coven of this name."""
        text = text.replace("coven: soak", f"coven: {name}").replace("MEDIUM", self.medium)
        text = text.replace("INDEPENDENT", str(self.independent).lower())
        return text.replace("APPROVE", f"[{', '.join(self.approve)}]").replace("TIMEOUT", str(self.timeout))


def setting(seed: int) -> Setting:
    """The setting of a seed."""
    random = Random(f"setting {seed}")
    return Setting(
        independent=random.random() < 0.3,
        medium=random.choice(("tools", "tools", "javascript", "python")),
        approve=random.choice(((), (), ("soak.once",), ("soak.again", "fs.write_text"))),
        timeout=random.choice((60.0, 60.0, 1.5)),
        fails=random.choice((0.0, 0.05, 0.2)),
        holds=random.choice((0.0, 0.1, 0.3)),
        door=random.random() < 0.3,
        rivals=random.random() < 0.6,
        shared=random.random() < 0.25,
    )
