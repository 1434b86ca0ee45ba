"""Does talking help, and what does it cost? The same traffic to several arms, probed and scored."""
