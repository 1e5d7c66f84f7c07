"""The rules, free of any wire or store: models, ports, and one module per use case."""
