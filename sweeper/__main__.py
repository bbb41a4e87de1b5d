"""``python -m sweeper`` is ``dimsweep``."""

import sys

from sweeper.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
