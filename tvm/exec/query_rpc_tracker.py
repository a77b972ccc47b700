"""Prints the servers and queues of a tracker: ``python -m tvm.exec.query_rpc_tracker``."""

from __future__ import annotations

import argparse
import os

from ..rpc import connect_tracker


def main() -> None:
    parser = argparse.ArgumentParser("query_rpc_tracker", description="print the servers and queues of a tracker")
    host = os.environ.get("TVM_TRACKER_HOST", "127.0.0.1")
    port = int(os.environ.get("TVM_TRACKER_PORT", "9190"))
    parser.add_argument("--host", default=host, help="address of the tracker (default: TVM_TRACKER_HOST or 127.0.0.1)")
    parser.add_argument(
        "--port", type=int, default=port, help="port of the tracker (default: TVM_TRACKER_PORT or 9190)"
    )
    args = parser.parse_args()
    print(f"Tracker address {args.host}:{args.port}\n")
    print(connect_tracker(args.host, args.port).text_summary())


if __name__ == "__main__":
    main()
