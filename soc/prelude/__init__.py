"""What every component begins from: step functions, records, counters, trace points."""
