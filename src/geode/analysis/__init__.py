"""Pure functions that read text: shell commands and secrets."""
