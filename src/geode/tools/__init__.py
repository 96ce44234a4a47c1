"""What a tool is: definition, schema, forms for providers, and the registry of all tools."""
