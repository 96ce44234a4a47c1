"""What Geode remembers: one database, and beside it the key and the signed heads of the audit record."""
