"""The fault suite: what is killed or damaged at random moments costs no row.  See __main__."""
