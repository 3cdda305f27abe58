"""What instructions are: encodings, meanings, programs."""
