"""Geode: one registry, one search, one gate and one record for the tools of an LLM agent."""
