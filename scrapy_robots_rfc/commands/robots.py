"""The entry point of `scrapy robots`.

Every `scrapy` command imports this module and creates a `Command`, so the rest of this package is
only imported when `scrapy robots` itself is run.
"""

from argparse import ArgumentParser, Namespace

from scrapy.commands import ScrapyCommand


class Command(ScrapyCommand):
    """The `scrapy robots` command, inside and outside a project."""

    requires_crawler_process = False
    exitcode: int = 2

    def syntax(self) -> str:
        """Return the arguments to show in the usage line."""
        return "[options] TOPIC ..."

    def short_desc(self) -> str:
        """Return the description to show in Scrapy's list of commands."""
        return "Show what robots.txt allows and why, check a robots.txt, summarize a report"

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the topics and their options."""
        from scrapy_robots_rfc.commands.topics import add_topics  # noqa: PLC0415 - see above

        super().add_options(parser)
        add_topics(parser)

    def process_options(self, args: list[str], opts: Namespace) -> None:
        """Apply the settings from the command line."""
        # After `cache ACTION --option`, or between options, argparse does not recognize URLs.
        if hasattr(opts, "urls"):
            opts.urls = [*opts.urls, *(each for each in args if not each.startswith("-"))]
            args = [each for each in args if each.startswith("-")]
        opts.refuse(args)
        opts.set = [*opts.set, *(opts.also_set or ())]
        super().process_options(args, opts)
        if self.settings is not None and not (opts.logfile or opts.loglevel):
            self.settings.set("LOG_ENABLED", False, "cmdline")

    def run(self, _: list[str], opts: Namespace) -> None:
        """Run the topic and keep its exit code."""
        from scrapy_robots_rfc.commands.topics import run_topic  # noqa: PLC0415 - see above

        assert self.settings is not None
        self.exitcode = run_topic(self.settings, opts)
