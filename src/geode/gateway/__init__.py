"""The gateway: Geode as one MCP server in front of all tools, in both protocol eras.

    server.py    what it needs, its requests, its sessions
    modes.py     direct (every tool) and search (three tools that find, explain and call)
    results.py   ToolResult -> CallToolResult
    consent.py   asking the person behind the client, by elicitation
    progress.py  progress and change notices
    stdio.py     on stdin and stdout
    http.py      Streamable HTTP on loopback

It makes a `Call` of the target for every request and hands it to the gate; it decides nothing.
"""
