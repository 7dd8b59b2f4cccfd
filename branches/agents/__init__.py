"""The Agents branch: the crystal, the circle and the entity."""
