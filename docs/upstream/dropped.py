from local_site import Site, crawl, fetched


class Breaking(Site):
    def robots(self):
        pass  # the connection is closed


crawl(Breaking)
print("fetched:", fetched)
