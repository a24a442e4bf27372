from local_site import CLOSED, Site, crawl, fetched


class Moved(Site):
    def robots(self):
        self.reply(status=301, Location=f"http://localhost:{self.server.server_port}/rules")

    def do_GET(self):
        if self.path == "/rules":
            self.reply(CLOSED)
        else:
            super().do_GET()


crawl(Moved)
print("fetched:", fetched)
