from local_site import CLOSED, Site, crawl, fetched
from scrapy.http import TextResponse


class Web:
    lazy = True

    async def download_request(self, request):
        if not request.url.endswith("/robots.txt"):
            fetched.append(request.url)
            return TextResponse(request.url)
        return TextResponse(request.url, body=CLOSED if "https:" in request.url else b"")

    async def close(self):
        pass


urls = ["http://shop.example/open", "https://shop.example/closed"]
crawl(Site, urls, DOWNLOAD_HANDLERS={"http": Web, "https": Web}, CONCURRENT_REQUESTS=1)
print("fetched:", fetched)
