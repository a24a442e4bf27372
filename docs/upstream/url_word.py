from scrapy.robotstxt import ProtegoRobotParser

ROBOTS = b"User-agent: *\nDisallow: /\nUser-agent: https\nAllow: /\n"
parser = ProtegoRobotParser.from_crawler(None, ROBOTS)
print("allowed:", parser.allowed("http://shop.example/page", "Scrapy/2 (+https://scrapy.org)"))
