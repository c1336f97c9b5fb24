"""`python -m cudademo`."""

import sys

from .cli import main

sys.exit(main())
