from local_site import Site, crawl, fetched


class Failing(Site):
    def robots(self):
        self.reply(status=503)


crawl(Failing)
print("fetched:", fetched)
