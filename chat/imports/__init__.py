"""Read chats that other programs exported: ChatGPT's, Open WebUI's, and our own."""
