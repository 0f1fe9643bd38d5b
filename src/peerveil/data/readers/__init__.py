"""One reader per format; :mod:`~peerveil.data.readers.recognize` says which."""
