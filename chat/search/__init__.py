"""Find words in all of a person's chats, by the database's own full-text index."""
