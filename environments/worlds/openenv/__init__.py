"""OpenEnv servers as worlds: reset and step over a websocket, actions by the schema that the server gives."""
