"""Who may call what: name policies, node scopes and effect rules; the strictest wins."""
