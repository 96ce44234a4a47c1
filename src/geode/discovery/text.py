"""Words of tool names, descriptions and queries, for the lexical index.

Identifiers are split (`fetchEmails` -> fetch, email), English words lose plural and verb
endings, stop words weigh nothing, and Hangul, kana and Han text is cut into bigrams
(a two-syllable Korean noun is found inside an inflected word).
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["tokens"]

_WORD = re.compile(r"[A-Za-z]+|[0-9]+|[가-힣]+|[぀-ヿ]+|[㐀-鿿]+|[^\W\d_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CJK = re.compile(r"[가-힣぀-ヿ㐀-鿿]")

_STOP = frozenset(
    "a an and any are as at be been but by can could do does for from get had has have he her his how i if in into is "
    "it its let like make me my need no not of on or our out please she should so some such than that the their them "
    "then there these they this to up us use used using very want was we were what when where which who will with "
    "would you your via per given tool tools".split()
)

_IRREGULAR = {"children": "child", "people": "person", "indices": "index", "matches": "match", "data": "data"}
_ENDINGS = (("ies", 3, "y"), ("sses", 2, "ss"), ("ing", 4, ""), ("ed", 4, ""), ("es", 4, ""), ("s", 3, ""))
"""Ending, least length of what stays, what is put instead."""


def stem(word: str) -> str:
    """A short form shared by the inflections of an English word; other words come back unchanged."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for ending, least, add in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= least and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)] + add
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def tokens(text: str) -> list[str]:
    """The index terms of a text, in order, with repetitions, without stop words."""
    out: list[str] = []
    for piece in _WORD.findall(unicodedata.normalize("NFKC", text)):
        if _CJK.match(piece):
            out += [piece[i : i + 2] for i in range(len(piece) - 1)] or [piece]
            continue
        for part in _CAMEL.split(piece):
            word = part.lower()
            if word not in _STOP and (len(word) > 1 or word.isdigit()):
                out.append(stem(word))
    return out
