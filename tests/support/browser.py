"""A real Chromium that opens a page from disk, and records its requests and console messages."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

#: The paths of the browser and its driver, or ``None`` if they are not installed.
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

_FLAGS = (
    "headless",
    "no-sandbox",
    "disable-gpu",
    "disable-quic",
    "no-first-run",
    "disable-background-networking",
    "disable-component-update",
    "disable-sync",
)
#: Start with an empty page, because the new-tab page loads hundreds of scripts, which is slow.
_PREFERENCES = {"session.restore_on_startup": 4, "session.startup_urls": ["about:blank"]}


class Opened(NamedTuple):
    """The requests and messages of an opened page.

    :param asked: the URLs that the page requested, including its own.
    :param console: the console messages: errors, and violations of the Content-Security-Policy.
    """

    asked: list[str]
    console: list[str]


class Browser:
    """The browser.

    :param profile: an empty folder for it to write into.
    """

    def __init__(self, profile: Path) -> None:
        self._profile = profile

    def __enter__(self) -> Self:
        options = webdriver.ChromeOptions()
        assert CHROMIUM is not None
        options.binary_location = CHROMIUM
        for flag in (*_FLAGS, f"user-data-dir={self._profile}"):
            options.add_argument(f"--{flag}")
        options.add_experimental_option("prefs", _PREFERENCES)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver: Any = webdriver.Chrome(options=options, service=Service(DRIVER))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.driver.quit()

    def open(self, page: Path) -> Opened:
        self.said()
        self.driver.get(page.as_uri())
        return self.said()

    def said(self) -> Opened:
        """Return the requests and console messages since the last call."""
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            # Leave out the requests of Chromium's own pages. A request of a page from disk always
            # has that page, or one in it, as its document.
            if message["method"] == "Network.requestWillBeSent" and not _is_own(
                message["params"]["documentURL"]
            ):
                asked.append(message["params"]["request"]["url"])
        return Opened(asked, [entry["message"] for entry in self.driver.get_log("browser")])

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def command(self, name: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, parameters)

    def screen(self, width: int, *, dark: bool = False, medium: str = "screen") -> None:
        """Set the width of the screen, the color scheme, and the medium."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", media=medium, features=[scheme])


def _is_own(document: str) -> bool:
    """Return whether a document is one of Chromium's own pages."""
    return document.startswith(("chrome://", "chrome-untrusted://"))
