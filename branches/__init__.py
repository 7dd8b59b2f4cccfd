"""What it is about: the Chat, Agents and Spellcasting branches, each with its entries, its manifest, its service."""
