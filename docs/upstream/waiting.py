import time

from local_site import CLOSED, Site, crawl, fetched


class Slow(Site):
    def robots(self):
        time.sleep(0.5)
        self.reply(CLOSED)


crawl(Slow, [f"/{number}" for number in range(20)])
print(f"fetched: {len(fetched)} of 20")
