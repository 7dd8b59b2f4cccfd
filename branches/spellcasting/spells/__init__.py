"""The spells that come with Coven, by substrate. What casts them is a leaf; what they are asked with stands here."""

from branches.spellcasting.spells.fs import Attach, ListDir, ReadText, WriteText
from branches.spellcasting.spells.shell import Exec

__all__ = ["Attach", "Exec", "ListDir", "ReadText", "WriteText"]
