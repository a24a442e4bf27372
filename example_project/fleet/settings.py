"""The settings of a worker.

All workers have the same ones; two addresses come from the environment.
"""

import os

BOT_NAME = "fleet"
SPIDER_MODULES = ["fleet.spider"]

# One Redis server is all that the workers share.
REDIS_URL = os.environ.get("FLEET_REDIS", "redis://127.0.0.1:6379/0")

# The queue of requests, and which of them were seen, by scrapy-redis.
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.FifoQueue"
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
SCHEDULER_PERSIST = True  # a worker that closes leaves the queue to the others
MAX_IDLE_TIME_BEFORE_CLOSE = 3  # seconds without anything to do, after which a worker closes

# robots.txt: one line to obey it, one to share it. The paces of sites are shared with it.
ADDONS = {"scrapy_robots_rfc.Addon": 500}
ROBOTS_CACHE = REDIS_URL

CONCURRENT_REQUESTS = 16

# Who we are. The second header is the demo's: by it the web's own log distinguishes the workers.
USER_AGENT = "fleetdemo/1.0 (+https://example.com/fleetdemo)"
WORKER = os.environ.get("FLEET_WORKER", "1")
DEFAULT_REQUEST_HEADERS = {"X-Worker": WORKER}

# Nothing of the demo takes longer; should something hang, the demo ends all the same.
DOWNLOAD_TIMEOUT = 15
ROBOTS_TIMEOUT = 15

LOG_LEVEL = "INFO"
LOGSTATS_INTERVAL = 0
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
