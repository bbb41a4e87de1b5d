"""Whatever comes in by a door is taken, or refused in a sentence.  See __main__."""
