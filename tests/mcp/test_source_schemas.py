"""Output schemas of a server are checked without asking anybody else for anything."""

from __future__ import annotations

import socket
import threading

from geode.mcp.source import mismatch


def test_a_remote_reference_in_an_output_schema_is_never_fetched() -> None:
    asked: list[bool] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(1.5)

        def listen() -> None:
            try:
                server.accept()[0].close()
                asked.append(True)
            except TimeoutError:
                pass

        thread = threading.Thread(target=listen)
        thread.start()
        schema = {"$ref": f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"}
        mismatch({"a": 1}, schema, given=True)
        thread.join()
    assert asked == []


def test_an_older_dialect_is_understood() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["a"]}
    assert mismatch({"a": 1}, schema, given=True) == ""
    assert "a" in mismatch({}, schema, given=True)
