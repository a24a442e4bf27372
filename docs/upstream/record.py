from scrapy.robotstxt import ProtegoRobotParser

ROBOTS = b"User-agent: scrapy\nCrawl-delay: 0\nUser-agent: otherbot\nDisallow: /\n"
parser = ProtegoRobotParser.from_crawler(None, ROBOTS)
print("allowed:", parser.allowed("http://shop.example/page", "scrapy"))
