"""What the Python checks share: a missing package is a skip, or a failure where CERA_REQUIRE_MODEL=1."""

import os
import sys

SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def require(*names):
    """Imports the modules and returns them."""
    try:
        return [__import__(name, fromlist=["_"]) for name in names]
    except ImportError as error:
        required = os.environ.get("CERA_REQUIRE_MODEL") == "1"
        print(f"{'failed' if required else 'skipped'}: {error} (python: {sys.executable})")
        sys.exit(1 if required else SKIPPED)
