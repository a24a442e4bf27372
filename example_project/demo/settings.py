"""The settings of the demo project.

Those before DOWNLOAD_HANDLERS concern robots.txt; the others keep the demo short.
"""

BOT_NAME = "demo"
SPIDER_MODULES = ["demo.spiders"]

# This line makes every crawl of this project obey robots.txt.
ADDONS = {"scrapy_robots_rfc.Addon": 500}

# The product token `demobot` comes from this header. Site owners write `User-agent: demobot` to
# address this crawler.
USER_AGENT = "demobot/1.0 (+https://example.com/demobot)"

# Scrapy has no handler for Gemini. With one, robots.txt is obeyed there, too: try `scrapy crawl
# gemini`.
DOWNLOAD_HANDLERS = {"gemini": "demo.gemini.GeminiHandler"}

# Runs the demo sites during the crawl of a spider that sets DEMO_SITE_ENABLED.
EXTENSIONS = {"demo.extension.DemoSite": 0}

# Retry soon, because the failing demo sites answer at once. The default is [5, 15, 45].
ROBOTS_UNREACHABLE_BACKOFF = [0.2, 0.4]

# No demo site takes longer than about a second. If one hangs, the demo ends anyway.
DOWNLOAD_TIMEOUT = 10
ROBOTS_TIMEOUT = 10

# Log little. The demo prints the lines about robots.txt, and `-L DEBUG` logs everything.
LOG_LEVEL = "WARNING"
LOG_FORMAT = "%(levelname)s: %(message)s"
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
