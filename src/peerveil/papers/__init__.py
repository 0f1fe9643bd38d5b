"""The papers as printed: what is needed to reproduce them, and to show where they are wrong."""
