"""The spells that come with Coven, by substrate. What casts them is a leaf; what they are asked with stands here."""

from branches.spellcasting.spells.fs import ListDir, ReadText, WriteText
from branches.spellcasting.spells.shell import Exec

__all__ = ["Exec", "ListDir", "ReadText", "WriteText"]
