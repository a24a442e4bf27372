"""Find a crawler's names in a User-Agent header (RFC 9110, 10.1.5).

Every regular expression takes linear time, because a header may be very long.
"""

import re
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

# A comment, which may contain another comment and may lack its last parenthesis:
# `(compatible; FooBot/2.1)`.
_COMMENT = re.compile(r"\(([^()]*+(?:\([^()]*+\)[^()]*+)*+)\)?+")
# A word, including its version: `FooBot/2.1`. A `+` before it is left out: `;+FooBot`.
_words_in = re.compile(r"[^\s,;()+][^\s,;()]*+").findall
# Part of a URL or an email address: `https://foo.example/bot`, `bot@foo.example`.
_is_address = re.compile(r"\Awww\.|://|@").search
# A product's name. HTTP allows more characters (RFC 9110, 5.6.2) than robots.txt does in a token.
_is_name = re.compile(r"[\w.!#$%&'*+^`|~-]+", re.ASCII).fullmatch
# A version after a space: `1.1` in `FooBot 1.1`.
_is_version = re.compile(r"v?[\d.]++\w*+", re.ASCII).fullmatch
# A word that crawlers have in their names: `360Spider`, `Slurp`.
_has_crawler_word = re.compile("bot|crawl|spider|slurp", re.IGNORECASE).search
# A browser or a television: `YaBrowser`, `HbbTV`.
_is_browser = re.compile(r"(?i:\w*browser)|.*T[Vv]\w?", re.ASCII).fullmatch
# A brand of phones whose name contains `bot`: `CUBOT_X18`.
_is_phone = re.compile(r"cubot(?![a-z])", re.IGNORECASE).match
# A letter or digit, which every name has.
_has_letter_or_digit = re.compile("[a-z0-9]", re.IGNORECASE).search

# Lowercase words in the headers of browsers that do not identify a crawler, without the digits at
# their end.
_BROWSER_WORDS = frozenset(
    """
    mozilla applewebkit khtml gecko like version mobile compatible u n i wv rv sm en de fr es us
    en-us en-gb build tablet touch screen large wireless vr beta alpha lite mini mobi store gui

    chrome chromium headlesschrome crios crmo chromeframe chr0me safari webclip edg edge edga
    edgios firefox fxios focus iceweasel icecat waterfox palemoon seamonkey basilisk cyberfox
    camino galeon epiphany konqueror midori falkon qupzilla otter opera opr opt opx omi presto
    coast msie iemobile trident sv slcc infopath gtb bri fbsmtwb netscape omniweb maxthon
    sleipnir vivaldi yowser brave adg aol aolbuild avast avg bingsapphire bingweb cmac honorlock
    likewise metasr opios se thunderbird whale duckduckgo ddg ecosia puffin quark silk odin odd
    atom abb awp owb hawk goanna minefield ucturbo ucmini ucweb uc qq tbs covc liebaofast
    sogoumse flyflow nabar bdapp sp-engine phx uws acheetahi aphone up.browser netfront dolfin
    mms mmp smm-mms opn-b bropp sa yaapp_android 360se linkedinapp jssdk bytelocale
    webappmanager yasearchapp yandexsearch yandexsearchwebview webomni gsa cronet qtwebengine
    electron obsidian webview twitter for language gzip gfe instagram micromessenger barcelona
    snapchat line nettype webp speedmode untrusted wvga fban fbav fbbv fbcr fbdv fbid fblc fbmd
    fbop fbrv fbsn fbss fbsv

    windows win wow macintosh macos mac macbookpro intel ppc x os cpu arm armv linux android
    dalvik iphone ipad ipod darwin cfnetwork cros ubuntu hardy intrepid jaunty karmic lucid
    maverick gutsy mint mandriva fedora debian suse slackware centos freebsd openbsd cyanogenmod
    kaios nt mb tizen webos bada brew symbian symbianos series nexus pixel kindle pocketbook
    xiaomi vivo oppo huawei samsung lg lge sony nokia htc zte lenovo toshiba hisense thomson
    amazonwebappplatform cordova-amazon-fireos aquos-as tesla playstation ps nintendo nf nx xbox
    steamdeck scee nuanti nuantimeta ce-html fvc fw crkey vizio smartcast conjure vidaa lativu
    tivoos netrangemmh signon sraf zeasn espial antgalio brightsign dunehd viera bro ctc mbbms
    model vendor system release engine sw-version profile configuration
    """.split()  # noqa: SIM905 -- so many words are easier to read as text than as a list
)


class _Product(NamedTuple):
    """A word that may be a crawler's name.

    :param name: the name as written.
    :param version: the version, or an empty string if there is none.
    :param is_crawler: True if the name contains a word such as `bot`.
    """

    name: str
    version: str
    is_crawler: bool


def names_in_header(header: str) -> list[str]:
    """Return the names in a User-Agent header, with the most likely name of the crawler first.

    Names next to `compatible` come first, then names with a version, then other names. For example,
    `Mozilla/5.0 (compatible; FooBot) Reader BarBot/1.0` contains FooBot, BarBot and Reader.
    """
    ranked: list[tuple[int, str]] = []
    pieces = _COMMENT.split(header)  # comments alternate with the text between them
    for text in ";".join(pieces[::2]).split(";"):  # a comment or a semicolon ends a name
        ranked += [(1 if version else 2, name) for name, version, _ in _products_in_text(text)]
    for comment in pieces[1::2]:
        is_beside_compatible = _is_beside_compatible(comment)
        for name, version, _ in _products_in_comment(comment, is_beside_compatible):
            ranked.append((0 if is_beside_compatible else 1 if version else 2, name))
    return [name for _, name in sorted(ranked, key=itemgetter(0))]


def _is_beside_compatible(comment: str) -> bool:
    """Return whether a comment contains `compatible`, next to which crawlers give their names."""
    parts = [part.strip().lower() for part in comment.split(";")]
    # Internet Explorer also sends `compatible`, and then the names of its toolbars. But a crawler
    # that sends the same also gives its URL.
    is_browser = any(part.startswith("msie") for part in parts) and "://" not in comment
    return "compatible" in parts and not is_browser


def _products_in_text(text: str) -> Iterator[_Product]:
    """Yield the products in the text outside comments.

    Like the value of a user-agent line, a name of several words, such as `Foo Reader`, is
    represented by its first word. But a later word with a version or a crawler word is another
    name. Only the word that the text starts with may be an unusual name. After a comment, the text
    starts with a space, so there is none.
    """
    is_in_name = False
    for word in _words_of(text):
        product = _parse_product(word, is_own_name=text.startswith(word))
        if product is None:
            # A plain word that browsers send, such as `for`, continues a name. Any other word ends
            # it, also one with a version, such as `Safari/537.36`.
            is_in_name = is_in_name and _is_sent_by_browsers(word)
        else:
            if product.version or product.is_crawler or not is_in_name:
                yield product
            is_in_name = not product.version  # a version ends a name


def _products_in_comment(comment: str, is_beside_compatible: bool) -> Iterator[_Product]:
    """Yield the products in a comment.

    Only a comment with `compatible`, or with a single part, is likely to name a crawler, by a word
    that is alone in its part or has a version. The parts of other comments are platforms and
    languages, unless they look like `FooBot` or `Foo/2.1`.

    :param is_beside_compatible: whether the products are next to `compatible`.
    """
    parts = comment.split(";")
    names_crawler = is_beside_compatible or len(parts) == 1
    for words in map(_words_of, parts):
        is_alone = len(words) == 1 or (len(words) == 2 and _is_version(words[1]))  # `Foo 2.1`
        for word in words:
            # Other comments may contain platforms, so accept no unusual names there.
            product = _parse_product(word, is_own_name=is_beside_compatible)
            if product is None:
                continue
            # `Foo/2.1`, but not `en/us`, and not a later word, as in `SM-T530 Build/2.1`.
            is_versioned = word == words[0] and product.version[:1].isdigit()
            is_named = names_crawler and (product.version or is_alone)
            if product.is_crawler or is_versioned or is_named:
                yield product


def _words_of(text: str) -> list[str]:
    """Return the words of a text except for addresses, without quotation marks."""
    return [word.strip("\"'") for word in _words_in(text) if not _is_address(word)]


def _parse_product(word: str, *, is_own_name: bool) -> _Product | None:
    """Parse a word, or return `None` if it is not a name or if browsers send it.

    :param is_own_name: True if the crawler's own name is expected here, so that unusual names are
        accepted if they have a version, such as `FooBrowser/2.0`, or look like `80legs`.
    """
    name, _, version = word.partition("/")
    is_valid = _is_name(name) and _has_letter_or_digit(name)
    if not is_valid or _is_phone(name) or _is_sent_by_browsers(name):
        return None
    product = _Product(name, version, _has_crawler_word(name) is not None)
    # Usual names do not start with a digit, unless they contain a crawler word: `360Spider`.
    if product.is_crawler or not (name[0].isdigit() or _is_browser(name)):
        return product
    is_like_80legs = name[0].isdigit() and name.lstrip("0123456789")[:1].isalpha()
    return product if is_own_name and (version or is_like_80legs) else None


def _is_sent_by_browsers(name: str) -> bool:
    """Return whether browsers send a word without a `/`, ignoring a number at its end."""
    return name.lower().rstrip("0123456789._-") in _BROWSER_WORDS  # `Win64`, `X11`
