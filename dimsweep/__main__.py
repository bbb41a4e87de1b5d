"""``python -m dimsweep`` is ``dimsweep``."""

import sys

from dimsweep.sweeper.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
