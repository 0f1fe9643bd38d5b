"""One reader per format; :mod:`~peerveil.judgements.readers.recognise` says which."""
