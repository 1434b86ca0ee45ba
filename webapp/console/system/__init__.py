"""Pages of the console's entry System."""
