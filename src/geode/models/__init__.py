"""Language models behind one protocol; each provider's SDK is imported in its adapter only."""
