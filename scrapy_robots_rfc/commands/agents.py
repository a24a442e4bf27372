"""The agents that a command uses, and the sources of their names."""

from argparse import ArgumentTypeError, Namespace
from collections.abc import Mapping
from typing import Any, NamedTuple

from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc.commands.common import Console
from scrapy_robots_rfc.core.agents import Agent, parse_agent
from scrapy_robots_rfc.middleware.user_agent import agent_of_header, default_header
from scrapy_robots_rfc.settings import Settings


def _agent(name: str) -> Agent:
    """Parse the value of `--agent`."""
    agent = parse_agent(name)
    if agent is None or not (agent.tokens or any(map(str.isalnum, name))):
        raise ArgumentTypeError("not a crawler name; use a product token or a User-Agent")
    return agent


#: The argument of topics that judge for an agent.
AGENT: dict[str, Any] = {
    "--agent": {
        "metavar": "TOKEN",
        "type": _agent,
        "action": "append",
        "help": "the crawler's product token or User-Agent; A,B means A or, failing that, B; may be"
        " repeated (default: the project's)",
    }
}


#: Descriptions of the `agent_from` values in JSON output.
_AGENT_SOURCES = {
    "option": "--agent",
    "setting": "ROBOTSTXT_USER_AGENT",
    "header": "the User-Agent header",
    "archive": "the archive",
}


class NamedAgent(NamedTuple):
    """An agent and the source of its name (a key in `_AGENT_SOURCES`)."""

    agent: Agent
    source: str

    @property
    def tokens(self) -> tuple[str, ...]:
        """The product tokens, in order of preference."""
        return self.agent.tokens

    @property
    def name(self) -> str:
        """The product tokens, or the User-Agent header that contains them."""
        is_token = self.agent.identification in self.tokens
        return ",".join(self.tokens) if is_token else self.agent.identification

    @property
    def record(self) -> dict[str, Any]:
        """The agent's fields in JSON output."""
        return {"agent": self.name, "agent_from": self.source, "tokens": list(self.tokens)}


def agents_of(
    opts: Namespace, our_settings: Settings, settings: ScrapySettings
) -> list[NamedAgent]:
    """Return the agents from the command line without duplicates, or the project's by default."""
    if opts.agent:
        return [NamedAgent(agent, "option") for agent in dict.fromkeys(opts.agent)]
    if our_settings.user_agent is not None:
        return [NamedAgent(our_settings.user_agent, "setting")]
    return [NamedAgent(agent_of_header(default_header(settings)), "header")]


def show_agent(record: Mapping[str, Any], console: Console) -> None:
    """Print a record's agent and the source of its name."""
    console.fact("agent", f"{record['agent']} (from {_AGENT_SOURCES[record['agent_from']]})")
