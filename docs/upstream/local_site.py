"""A site on this machine, and a crawl with plain Scrapy."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from scrapy import Spider
from scrapy.crawler import CrawlerProcess

CLOSED = b"User-agent: *\nDisallow: /\n"
fetched = []


class Site(BaseHTTPRequestHandler):
    def reply(self, body=b"", status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/robots.txt":
            self.robots()
        else:
            fetched.append(self.path)
            self.reply()

    def log_message(self, *args):
        pass


class Pages(Spider):
    name = "pages"
    allowed_domains = ["127.0.0.1", "shop.example"]

    def parse(self, response):
        pass


def crawl(site, paths=("/page",), **settings):
    server = ThreadingHTTPServer(("127.0.0.1", 0), site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    urls = [base + path if path.startswith("/") else path for path in paths]
    process = CrawlerProcess({"ROBOTSTXT_OBEY": True, "LOG_ENABLED": False, **settings})
    process.crawl(Pages, start_urls=urls)
    process.start()
