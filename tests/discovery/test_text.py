"""Terms: what the lexical index sees of names and texts."""

from __future__ import annotations

import pytest

from geode.discovery.index import LexicalIndex
from geode.discovery.text import tokens


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("fetchEmails", "fetch emails"),
        ("get-weread-rank", "get weread rank"),
        ("HTTPServer", "http server"),
        ("list_directories", "list directory"),
        ("matching lines", "match line"),
        ("stopped", "stop"),
        ("files", "file"),
    ],
)
def test_inflections_and_spellings_share_terms(a: str, b: str) -> None:
    assert tokens(a) == tokens(b)


def test_stop_words_have_no_weight() -> None:
    assert tokens("the file of the") == tokens("file")
    assert "the" not in tokens("theme")


def test_korean_is_cut_into_bigrams_so_that_a_noun_is_found_in_an_inflected_word() -> None:
    assert set(tokens("계약")) <= set(tokens("계약서를 읽어줘"))


def test_removed_documents_leave_nothing_behind() -> None:
    index = LexicalIndex({"d": 1.0})
    index.add("a", {"d": "read a spreadsheet"})
    before = index.search("spreadsheet", 5)
    index.add("b", {"d": "send mail to people"})
    index.remove("b")
    assert index.search("spreadsheet", 5) == before
    assert index.search("mail", 5) == []


def test_an_index_of_one_document_still_finds_it() -> None:
    index = LexicalIndex({"d": 1.0})
    index.add("only", {"d": "convert currency amounts"})
    assert [k for k, _ in index.search("convert my currency", 5)] == ["only"]


def test_scores_are_shares_of_the_best_possible() -> None:
    index = LexicalIndex({"n": 3.0, "d": 1.0})
    for i in range(50):
        index.add(f"t{i}", {"n": f"tool{i}", "d": f"does thing number {i} with files"})
    index.add("x", {"n": "chart", "d": "draw a chart"})
    (best, score), *rest = index.search("draw a chart", 5)
    assert best == "x" and 0.3 < score <= 1.0
    assert all(s < score for _, s in rest)
