from scrapy.robotstxt import ProtegoRobotParser

ROBOTS = b"User-agent: foobot\nDisallow: /\nUser-agent: mozilla\nAllow: /\n"
parser = ProtegoRobotParser.from_crawler(None, ROBOTS)
header = "Mozilla/5.0 (compatible; FooBot/2.1; +https://foo.example/bot)"
print("allowed:", parser.allowed("http://shop.example/page", header))
