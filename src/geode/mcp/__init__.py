"""MCP servers as a source of tools: one supervised connection per server.

    config.py      server files, scopes, atomic edits
    expand.py      ${VAR} and ${VAR:-default}, one rule for every field
    snapshot.py    what a server offered last time, so that listing starts nothing
    guard.py       tiny parent of a server process: nothing outlives Geode
    stdio.py       transport over a process
    web.py         transport over Streamable HTTP
    connection.py  one negotiated connection: versions, eras, pages, raw requests
    server_task.py one owner task per connection
    skills.py      skills that servers offer: listed, fetched when read, verified
    source.py      MCP tool -> FunctionTool, MCP result -> ToolOutput
    hub.py         all servers of a project

The official SDK is imported inside functions only: importing this package costs nothing.
"""
