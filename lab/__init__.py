"""Find and prove a recipe: evidence that talking helps, the judge's curriculum, research."""
