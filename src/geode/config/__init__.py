"""Settings in layers, the home directory, and project trust."""
