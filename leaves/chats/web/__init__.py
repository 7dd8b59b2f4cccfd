"""A chat in the browser: a small page, and the socket that it talks through."""
