"""One file a backend; `runner.py` is the port, `select.py` picks what works here."""
