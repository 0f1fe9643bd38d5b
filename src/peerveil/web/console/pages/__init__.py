"""The console's pages: :func:`create_app` makes the web application, :func:`run_console` serves it with its workers."""

from peerveil.web.console.pages.app import Console, create_app, is_local, run_console

__all__ = ["Console", "create_app", "is_local", "run_console"]
