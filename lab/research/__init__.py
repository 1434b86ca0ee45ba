"""Try what a recipe, a pack, guidance or the gate does to a real model, in one process."""
