"""Everyday questions, one a line, and templates of word problems. The two splits have nothing in common."""
