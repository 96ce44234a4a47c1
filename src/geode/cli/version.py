"""The version shown by `geode --version`, known without reading package metadata (which costs 30 ms)."""

VERSION = "0.1.0"
