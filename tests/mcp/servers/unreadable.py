"""An HTTP server of the older era that answers calls with what is no JSON-RPC: `unreadable.py PORT`."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERSION = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "w", "version": "1"}}
ANSWERS = {
    "initialize": {"result": VERSION},
    "tools/list": {"result": {"tools": [{"name": "ping", "description": "p", "inputSchema": {"type": "object"}}]}},
    "tools/call": {"result": "pong"},
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):
        pass

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(405)

    def do_DELETE(self):
        self.answer(405)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in request:
            self.answer(202)
            return
        unknown = {"error": {"code": -32000, "message": "Server not initialized"}}
        said = ANSWERS.get(request["method"], unknown)
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], **said}).encode()
        self.answer(400 if said is unknown else 200, body)


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
