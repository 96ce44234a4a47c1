"""Tools to see: files and documents."""
