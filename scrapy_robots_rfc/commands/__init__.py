"""`scrapy robots ...`: what can be asked of robots.txt on the command line, with a module for each topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import argparse

#: Where topics, and their actions, are added to a command line.
Topics: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
