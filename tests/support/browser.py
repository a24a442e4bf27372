"""A real Chromium that looks at a page on the disk, and says what it showed, asked for and
complained about.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

#: Where the browser and its driver are; ``None`` where they are not installed.
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
#: It begins with an empty page: its own new-tab page loads hundreds of scripts, which takes longer
#: than all else.
_PREFERENCES = {"session.restore_on_startup": 4, "session.startup_urls": ["about:blank"]}


class Opened(NamedTuple):
    """What came of opening a page.

    :param asked: the URLs that the page asked for, its own among them.
    :param console: what stands in the console: errors, and breaches of the Content-Security-Policy.
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

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.driver.quit()

    def open(self, page: Path) -> Opened:
        """Open a page."""
        self.said()
        self.driver.get(page.as_uri())
        return self.said()

    def said(self) -> Opened:
        """What was asked for, and complained about, since the last call."""
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            # Not what Chromium's own pages ask for, such as a new tab. This hides nothing of a page
            # from the disk: what it asks for, were it chrome://, is asked for by that page, or one
            # in it, and none of these opens there.
            if message["method"] == "Network.requestWillBeSent" and not _is_own(
                message["params"]["documentURL"]
            ):
                asked.append(message["params"]["request"]["url"])
        return Opened(asked, [entry["message"] for entry in self.driver.get_log("browser")])

    def run(self, script: str, *arguments: Any) -> Any:
        """Return what a function of JavaScript returns."""
        return self.driver.execute_script(script, *arguments)

    def command(self, name: str, **parameters: Any) -> Any:
        """Give a command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def screen(self, width: int, *, dark: bool = False, medium: str = "screen") -> None:
        """Make the screen so wide, dark or not; or let the medium be paper."""
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
    """Whether a document is one of Chromium itself."""
    return document.startswith(("chrome://", "chrome-untrusted://"))
