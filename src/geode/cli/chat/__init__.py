"""The chat: `geode` without a command, at a terminal.

app.py        the conversation: prompt, turn, Ctrl-C, end
view.py       what is seen while a turn runs
markdown.py   Markdown that arrives in pieces
keyboard.py   the prompt: history, completion, keys
approve.py    asks the person about a call
slash.py      the one table of slash commands
commands.py   what they do
"""
