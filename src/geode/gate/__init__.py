"""The one door: every tool call, whoever makes it, passes here and nowhere else.

resolve.py   name -> policy by name -> registry entry -> validated arguments -> impacts -> verdict
decide.py    what is still Ask: judges, a person, an approval given earlier
execute.py   context, limits, cancellation, the only place that reaches a raw callable
answers.py   the results of calls that did not run
shape.py     redact, shorten visibly, keep the full text readable as result:ID
record.py    intent before, outcome after, denials too
gate.py      the order of all this
"""
