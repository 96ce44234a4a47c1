"""The agent: a loop around a model whose every tool call passes the gate.

loop.py      AgenticLoop: ask the model, run what it calls, feed back
calls.py     the calls of one turn: reads together, effects in order, results in call order
guards.py    repeats and denials that lead nowhere
history.py   a history that is valid for every provider, whatever interrupted it
context.py   system prompt and request
compaction.py   a long history made short
session.py   the transcript on disk, resume
"""
