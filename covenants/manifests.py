"""The manifests of all branches."""

from __future__ import annotations

from collections.abc import Mapping

from branches.agents.manifest import AGENTS
from branches.chat.manifest import CHAT
from branches.manifest import Manifest
from branches.spellcasting.manifest import SPELLCASTING

Manifests = Mapping[str, Manifest]

MANIFESTS: Manifests = {manifest.branch: manifest for manifest in (CHAT, AGENTS, SPELLCASTING)}
