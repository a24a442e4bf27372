"""The settings of a worker: all workers have the same, except for its name."""

import os

BOT_NAME = "fleet"
SPIDER_MODULES = ["fleet.spider"]

# The workers share one Redis server.
REDIS_URL = os.environ.get("FLEET_REDIS", "redis://127.0.0.1:6379/0")

# scrapy-redis: the queue of requests, and the duplicate filter.
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.FifoQueue"
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
SCHEDULER_PERSIST = True  # a worker that closes does not delete the queue
MAX_IDLE_TIME_BEFORE_CLOSE = 3  # seconds

# One line to obey robots.txt, and one to share files, fetches and intervals.
ADDONS = {"scrapy_robots_rfc.Addon": 500}
ROBOTS_CACHE = REDIS_URL

CONCURRENT_REQUESTS = 16

# The demo reads in the header X-Worker which worker sent a request.
USER_AGENT = "fleetdemo/1.0 (+https://example.com/fleetdemo)"
WORKER = os.environ.get("FLEET_WORKER", "1")
DEFAULT_REQUEST_HEADERS = {"X-Worker": WORKER}

LOG_LEVEL = "INFO"
LOGSTATS_INTERVAL = 0
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
