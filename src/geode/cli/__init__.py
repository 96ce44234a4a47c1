"""The command line: `geode COMMAND …` : its words, JSON documents and exit codes are a contract."""
