"""The settings of the demo project.

Only the first block is about robots.txt; the rest makes the demo short.
"""

BOT_NAME = "demo"
SPIDER_MODULES = ["demo.spiders"]

# The one line that makes every crawl of this project obey robots.txt.
ADDONS = {"scrapy_robots_rfc.Addon": 500}

# Pages may say that their links are not to be followed, in an X-Robots-Tag line or a meta.
ROBOTS_TAG_OBEY = ["nofollow"]

# What the demo is for, so that sites can refuse it. Without this line no site is asked.
ROBOTS_USE = ["train-ai"]

# Who we are. The product token `demobot` is taken from it; site owners write `User-agent: demobot`
# to address us.
USER_AGENT = "demobot/1.0 (+https://example.com/demobot)"

# Scrapy has no handler for Gemini. With one, robots.txt is obeyed there, too: see `scrapy crawl
# gemini`.
DOWNLOAD_HANDLERS = {"gemini": "demo.gemini.GeminiHandler"}

# Starts the demo site for the spiders that set DEMO_SITE_ENABLED, and stops it when they are done.
EXTENSIONS = {"demo.extension.DemoSite": 0}

# The demo's failing servers fail at once, so that asking again soon is enough; the default is [5,
# 15, 45].
ROBOTS_UNREACHABLE_BACKOFF = [0.2, 0.4]

# Nothing of the demo takes longer than about a second; should a server hang, the demo ends all the
# same.
DOWNLOAD_TIMEOUT = 10
ROBOTS_TIMEOUT = 10

# The table is the output. Use `-L DEBUG` to see the log line of every page that robots.txt forbids.
LOG_LEVEL = "WARNING"
LOG_FORMAT = "%(levelname)s: %(message)s"
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
