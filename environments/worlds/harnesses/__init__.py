"""Other people's harnesses: a command that is started for each attempt and reaches Talkback's /v1 alone."""
