"""List a person's chats: dated groups, folders, pins, the archive."""
