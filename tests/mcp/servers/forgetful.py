"""An HTTP server of the older era that forgets its sessions: `forgetful.py PORT once|always`."""

import json
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sessions: set[str] = set()
calls = {"n": 0, "lost": 0, "initialize": 0}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=None, **headers):
        data = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer(405)

    def do_DELETE(self):
        self.answer(200)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, number = request.get("method"), request.get("id")
        session = self.headers.get("mcp-session-id")
        if method == "server/discover":
            return self.answer(400, {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}})
        if method == "initialize":
            calls["initialize"] += 1
            new = uuid.uuid4().hex
            sessions.add(new)
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "f", "version": "1"},
            }
            return self.answer(200, {"jsonrpc": "2.0", "id": number, "result": result}, mcp_session_id=new)
        if session not in sessions:
            return self.answer(
                404, {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session not found"}}
            )
        if number is None:
            return self.answer(202)
        if method == "tools/list":
            names = ["hello", "forget"]
            tools = [{"name": n, "description": n, "inputSchema": {"type": "object"}} for n in names]
            return self.answer(200, {"jsonrpc": "2.0", "id": number, "result": {"tools": tools}})
        calls["n"] += 1
        if request["params"]["name"] == "forget" or sys.argv[2] == "always":
            sessions.clear()
        if sys.argv[2] == "always":
            calls["n"] -= 1
            return self.answer(
                404, {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session not found"}}
            )
        text = json.dumps(calls)
        return self.answer(
            200, {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": text}]}}
        )


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
