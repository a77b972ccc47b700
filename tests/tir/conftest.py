"""Makes the reference interpreter importable from every test below this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
