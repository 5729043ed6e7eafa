"""Prints the metrics of a sandbox as the sync and the async client read them; the Node test compares them."""

import asyncio
import json
import sys

from e2b import AsyncSandbox, Sandbox


def plain(points):
    return [[p.timestamp.isoformat(), p.cpu_count, p.cpu_used_pct, p.mem_used, p.mem_total, p.disk_used] for p in points]


sandbox_id = sys.argv[1]
sync = plain(Sandbox.connect(sandbox_id).get_metrics())
later = plain(asyncio.run(AsyncSandbox.get_metrics(sandbox_id)))
print(json.dumps({"sync": sync, "later": later}))
