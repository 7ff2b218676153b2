"""A preprocessor of mdBook: what a chapter links to outside of the guide is in the repository and not in the book."""

import json
import posixpath
import re
import sys

REPOSITORY = "https://github.com/leasehold/leasehold/blob/main/"
PICTURES = "https://raw.githubusercontent.com/leasehold/leasehold/main/"
OUTSIDE = re.compile(r"(!?\[[^\]]*\]\()(\.\./[^)\s]*)")


def link(found):
    start, target = found.groups()
    path = posixpath.normpath(posixpath.join("docs/guide", target))
    return start + (PICTURES if start.startswith("!") else REPOSITORY) + path


def visit(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            item["Chapter"]["content"] = OUTSIDE.sub(link, item["Chapter"]["content"])
            visit(item["Chapter"]["sub_items"])


if sys.argv[1:2] != ["supports"]:
    _, book = json.load(sys.stdin)
    visit(book.get("sections", book.get("items", [])))
    json.dump(book, sys.stdout)
