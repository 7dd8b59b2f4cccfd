"""All leaves that come with Coven. Reading this imports no SDK."""

from __future__ import annotations

from branches.catalogue import Catalogue, LeafInfo, LeafKind
from branches.spellcasting.spells import Attach, Exec, ListDir, ReadText, WriteText
from leaves.chats.console import ConsoleOptions
from leaves.chats.discord.options import TOKEN as DISCORD_TOKEN
from leaves.chats.discord.options import DiscordOptions
from leaves.chats.slack.options import APP_TOKEN as SLACK_APP_TOKEN
from leaves.chats.slack.options import BOT_TOKEN as SLACK_BOT_TOKEN
from leaves.chats.slack.options import SlackOptions
from leaves.chats.web.options import WebOptions
from leaves.crystals.anthropic import KEY as ANTHROPIC_KEY
from leaves.crystals.anthropic import AnthropicOptions
from leaves.crystals.gemini import KEY as GEMINI_KEY
from leaves.crystals.gemini import GeminiOptions
from leaves.crystals.local import LocalOptions
from leaves.crystals.openai import KEY as OPENAI_KEY
from leaves.crystals.openai import OpenAIOptions
from leaves.crystals.openrouter import KEY as OPENROUTER_KEY
from leaves.crystals.openrouter import OpenRouterOptions
from leaves.spells.fs import FsOptions
from leaves.spells.shell import ShellOptions

CATALOGUE = Catalogue(
    leaves=(
        LeafInfo(
            name="console",
            kind=LeafKind.CHAT,
            summary="this terminal, or a pipe",
            factory="leaves.chats.console:open_console",
            options=ConsoleOptions,
            files=("history",),
        ),
        LeafInfo(
            name="web",
            kind=LeafKind.CHAT,
            summary="a page in the browser",
            factory="leaves.chats.web.leaf:WebChat",
            options=WebOptions,
            extra="http",
            needs=("starlette", "uvicorn", "websockets"),
        ),
        LeafInfo(
            name="anthropic",
            kind=LeafKind.CRYSTAL,
            summary="Claude, by Anthropic",
            factory="leaves.crystals.anthropic:AnthropicCrystal",
            options=AnthropicOptions,
            secrets=(ANTHROPIC_KEY,),
            untaken="leaves.crystals.anthropic:untaken",
        ),
        LeafInfo(
            name="discord",
            kind=LeafKind.CHAT,
            summary="a bot on Discord",
            factory="leaves.chats.discord.leaf:Discord",
            options=DiscordOptions,
            extra="discord",
            needs=("discord",),
            secrets=(DISCORD_TOKEN,),
        ),
        LeafInfo(
            name="slack",
            kind=LeafKind.CHAT,
            summary="an app in a Slack workspace",
            factory="leaves.chats.slack.leaf:Slack",
            options=SlackOptions,
            extra="slack",
            needs=("slack_sdk", "aiohttp"),
            secrets=(SLACK_BOT_TOKEN, SLACK_APP_TOKEN),
        ),
        LeafInfo(
            name="openai",
            kind=LeafKind.CRYSTAL,
            summary="OpenAI's models",
            factory="leaves.crystals.openai:OpenAICrystal",
            options=OpenAIOptions,
            secrets=(OPENAI_KEY,),
            untaken="leaves.crystals.openai:untaken",
        ),
        LeafInfo(
            name="gemini",
            kind=LeafKind.CRYSTAL,
            summary="Google's Gemini",
            factory="leaves.crystals.gemini:GeminiCrystal",
            options=GeminiOptions,
            secrets=(GEMINI_KEY,),
        ),
        LeafInfo(
            name="openrouter",
            kind=LeafKind.CRYSTAL,
            summary="models of many providers, through OpenRouter",
            factory="leaves.crystals.openrouter:OpenRouterCrystal",
            options=OpenRouterOptions,
            secrets=(OPENROUTER_KEY,),
        ),
        LeafInfo(
            name="local",
            kind=LeafKind.CRYSTAL,
            summary="a model of one's own: Ollama, vLLM, llama.cpp, any endpoint like OpenAI's",
            factory="leaves.crystals.local:LocalCrystal",
            options=LocalOptions,
        ),
        LeafInfo(
            name="rehearsal",
            kind=LeafKind.CRYSTAL,
            summary="no model: a few plain phrases that make real gate calls",
            factory="leaves.crystals.rehearsal:RehearsalCrystal",
        ),
        LeafInfo(
            name="javascript",
            kind=LeafKind.MEDIUM,
            summary="code in JavaScript: QuickJS in WebAssembly, in this process",
            factory="leaves.mediums.javascript:JavaScript",
        ),
        LeafInfo(
            name="python",
            kind=LeafKind.MEDIUM,
            summary="code in Python: Monty, in worker processes",
            factory="leaves.mediums.python:Python",
        ),
        LeafInfo(
            name="fs",
            kind=LeafKind.SUBSTRATE,
            summary="the text files of one folder",
            factory="leaves.spells.fs:Filesystem",
            options=FsOptions,
            folders=("root",),
            spells=(ReadText, ListDir, WriteText, Attach),
            trust={"fs.read_text": ("private",), "fs.list_dir": ("private",), "fs.attach": ("private",)},
        ),
        LeafInfo(
            name="shell",
            kind=LeafKind.SUBSTRATE,
            summary="allowed programs in one folder, without a shell and in a sandbox",
            factory="leaves.spells.shell:Shell",
            options=ShellOptions,
            folders=("root",),
            spells=(Exec,),
            trust={"shell.exec": ("private", "outward")},
            trust_if={"network": {"shell.exec": ("untrusted",)}},
        ),
    )
)
