"""Order jobs by what they need."""
