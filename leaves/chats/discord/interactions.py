"""Slash commands and buttons: what people do with them, and what they see of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import discord
from discord import app_commands

from leaves.chats.discord.failures import failures


class Asked(NamedTuple):
    """A slash command `/ask`."""

    interaction: discord.Interaction
    text: str


class Approved(NamedTuple):
    """A slash command `/approve`."""

    interaction: discord.Interaction
    answer: str


class Reset(NamedTuple):
    """A slash command `/reset`."""

    interaction: discord.Interaction


class Fork(NamedTuple):
    """A slash command `/fork`: the conversation goes on from `back` messages ago, with this text if there is one."""

    interaction: discord.Interaction
    back: int
    text: str


class Pressed(NamedTuple):
    """A button of ours was pressed."""

    interaction: discord.Interaction
    question: str
    number: int


Interaction = Asked | Approved | Reset | Fork | Pressed


def offer(tree: app_commands.CommandTree[Any], take: Callable[[Interaction], None]) -> None:
    """Put the commands into the tree; `take` gets each that is used."""

    @app_commands.describe(text="what you want to know or to have done")
    async def ask(interaction: discord.Interaction, text: str) -> None:
        take(Asked(interaction, text))

    @app_commands.describe(answer="what you answer; yes, if you say nothing")
    async def approve(interaction: discord.Interaction, answer: str = "yes") -> None:
        take(Approved(interaction, answer))

    async def reset(interaction: discord.Interaction) -> None:
        take(Reset(interaction))

    @app_commands.describe(back="how many messages of people are taken back; 0, if you say nothing")
    @app_commands.describe(text="what is said instead of them")
    async def fork(
        interaction: discord.Interaction, back: app_commands.Range[int, 0, 1000] = 0, text: str = ""
    ) -> None:
        take(Fork(interaction, back, text))

    about = "Go on from an earlier moment of this conversation; what was said stays recorded"
    tree.add_command(app_commands.Command(name="fork", description=about, callback=fork))
    about = "Begin a new conversation here; what was said stays recorded"
    tree.add_command(app_commands.Command(name="reset", description=about, callback=reset))
    about = "Answer the oldest question that is open here"
    tree.add_command(app_commands.Command(name="approve", description=about, callback=approve))
    tree.add_command(app_commands.Command(name="ask", description="Ask the agent something", callback=ask))


async def acknowledge(interaction: discord.Interaction, text: str, *, alone: bool = False) -> None:
    """Answer a command with a message; `alone` shows it to nobody else. Raises as `failures`."""
    with failures():
        await interaction.response.send_message(
            text[:1900], ephemeral=alone, allowed_mentions=discord.AllowedMentions.none()
        )


async def settle(interaction: discord.Interaction, answered: str) -> None:
    """Write an answer below the question whose button was pressed, and take the buttons away. Raises as `failures`."""
    asked = interaction.message.content if interaction.message is not None else ""
    with failures():
        await interaction.response.edit_message(
            content=f"{asked[:1800]}\n{answered[:190]}", view=None, allowed_mentions=discord.AllowedMentions.none()
        )
