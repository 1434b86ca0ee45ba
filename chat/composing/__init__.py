"""What a person brings to a message: a chat's settings, saved prompts, files, a second opinion."""
