"""The console: the five rooms in a browser."""
