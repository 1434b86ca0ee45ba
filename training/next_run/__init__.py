"""What the next training of a line would learn from, and take."""
