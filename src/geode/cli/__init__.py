"""The command line: `geode COMMAND …` (the contract is in docs/commands.md)."""
