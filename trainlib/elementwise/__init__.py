"""Maps: what is computed of every element alone; elementary functions, optimisers, copies."""
