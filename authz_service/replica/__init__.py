"""The access tree held in memory: its structure, and the decisions made upon it. Knows no database."""
