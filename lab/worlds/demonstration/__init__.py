"""Whether step values help an agent to learn: arms from the same weights, played through a private Talkback."""
