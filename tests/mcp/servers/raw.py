"""A misbehaving server in plain Python, older era: `raw.py BEHAVIOUR [ARGUMENT]`."""

import json
import os
import subprocess
import sys
import time

how = sys.argv[1]
arg = sys.argv[2] if len(sys.argv) > 2 else ""
out = sys.stdout
state = {"lists": 0}


def send(message):
    out.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    out.flush()


def noise(text):
    if how == "noise":
        out.write(text)
        out.flush()


def tool(name, **more):
    return {"name": name, "description": name, "inputSchema": {"type": "object"}, **more}


def tools(cursor):
    if how == "pages":
        first = 0 if cursor is None else int(cursor.split("!")[1])
        page = {"tools": [tool(f"t{i}") for i in range(first, min(101, first + 50))]}
        if first + 50 < 101:
            page["nextCursor"] = f"op que/{'ü'}!{first + 50}"
        return page
    if how == "endless":
        return {"tools": [tool("a")], "nextCursor": "same"}
    if how == "bad_tools":
        return {"tools": [tool("good"), {"name": "no_schema"}, tool("wrong", inputSchema={"type": "nonsense"}),
                          {"description": "nameless"}, "text", tool("odd name/with:signs"), tool("good")]}  # fmt: skip
    return {"tools": [tool("ping")]}


def initialize(request):
    asked = request["params"]["protocolVersion"]
    version = "2025-06-18"
    if how == "old":
        version = "2024-11-05"
    elif how == "ancient":
        version = "1999-01-01"
    elif how == "refuses" and asked != "2025-03-26":
        send({"id": request["id"], "error": {"code": -32602, "message": "Unsupported protocol version",
              "data": {"supported": ["2025-03-26"], "requested": asked}}})  # fmt: skip
        return
    elif how == "refuses":
        version = "2025-03-26"
    capabilities = {} if how == "undeclared" else {"tools": {"listChanged": True}}
    noise('log: {"level": "info"} \U0001f680\n')
    send({"id": request["id"], "result": {"protocolVersion": version, "capabilities": capabilities,
          "serverInfo": {"name": "raw", "version": "0"}}})  # fmt: skip


def main():
    if how == "tells":
        print(f"refused: {os.environ['KEY_OF_THE_TEST']} is no good", file=sys.stderr, flush=True)
        sys.exit(3)
    if how == "crash":
        print("boom: no database", file=sys.stderr, flush=True)
        sys.exit(3)
    if how == "pure_noise":
        while True:
            print("Downloading 1 of 900 packages", flush=True)
            time.sleep(0.1)
    if how == "stubborn":
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how == "wrapper":
        with open(arg, "a") as file:
            inner = subprocess.Popen([sys.executable, __file__, "stubborn"], stdin=0, stdout=1)
            detached = subprocess.Popen(["sleep", "600"], start_new_session=True, stdin=subprocess.DEVNULL)
            file.write(f"{os.getpid()} {inner.pid} {detached.pid}\n")
        inner.wait()
        return
    noise("Starting…\n\n\U0001f600 ready\nno line end ")
    if how == "slow":
        time.sleep(float(arg))
    for line in sys.stdin:
        if how == "deaf_before_handshake" and "initialize" not in line and not state.get("ready"):
            continue
        request = json.loads(line)
        method = request.get("method")
        noise('[debug] handling a request\n{"not": "rpc"}\n')
        if method == "initialize":
            state["ready"] = True
            initialize(request)
        elif method == "tools/list":
            state["lists"] += 1
            if how == "undeclared" and state["lists"] > 1:
                send({"id": request["id"], "result": {"tools": [tool("ping"), tool("secret")]}})
            else:
                send({"id": request["id"], "result": tools(request.get("params", {}).get("cursor"))})
        elif method == "tools/call":
            if how == "undeclared":
                send({"method": "notifications/tools/list_changed"})
            if how == "silent":
                continue
            if how == "own_codes":
                send({"id": request["id"], "error": {"code": -32000, "message": "no such project"}})
                continue
            if how == "nonsense":
                send({"id": request["id"], "result": "pong"})
                continue
            if how == "surrogate":
                content = f'[{{"type": "text", "text": "{arg}"}}]'
                out.write(f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result": {{"content": {content}}}}}\n')
                out.flush()
                continue
            if how == "closes_stdin":
                os.close(0)
                time.sleep(600)
            send({"id": request["id"], "result": {"content": [{"type": "text", "text": "pong"}]}})
        elif "id" in request and how == "own_codes":
            send({"id": request["id"], "error": {"code": -32000, "message": "Server not initialized"}})
        elif "id" in request:
            send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
    if how == "stubborn":
        time.sleep(600)


main()
