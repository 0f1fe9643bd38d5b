"""What every other package stands on: errors, exact numbers, guarantees, randomness, results and files."""
