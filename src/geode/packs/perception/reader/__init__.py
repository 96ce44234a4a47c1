"""Reads documents in a child process: parsers of foreign formats never run inside Geode itself.

`python -m geode.packs.perception.reader` takes a request and the document on stdin and
writes one JSON object. Nothing here imports the rest of Geode but `packs.text`.
"""
