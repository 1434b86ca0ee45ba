"""Pictures in what is said: read by their bytes, kept beside the database, given to a model that sees."""
