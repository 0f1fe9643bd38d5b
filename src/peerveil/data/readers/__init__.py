"""From a file to columns: one reader per format. :mod:`peerveil.data.check` checks the columns."""
