from local_site import CLOSED, Site, crawl, fetched


class Large(Site):
    def robots(self):
        self.reply(CLOSED + b"# A comment.\n" * 100)


crawl(Large, DOWNLOAD_MAXSIZE=1000)
print("fetched:", fetched)
