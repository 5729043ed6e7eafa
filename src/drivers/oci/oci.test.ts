import { driverSuite } from '../driver-suite.ts'
import { snapshotSuite } from '../snapshot-suite.ts'
import type { OciDriverOptions } from './oci-driver.ts'
import { openOciBench } from './suite-bench.ts'
import { egressSuite } from './suite-egress.ts'
import { gateSuite } from './suite-gate.ts'
import { isolationSuite } from './suite-isolation.ts'
import { limitsSuite } from './suite-limits.ts'
import { networkSuite } from './suite-network.ts'
import { ociSnapshotSuite } from './suite-snapshot.ts'
import { survivalSuite } from './suite-survival.ts'

/** As in test/support/warren.ts: runs beside each other have places, and so networks, of their own. */
const place = Number(process.env.WARREN_TEST_PLACE ?? 0)
const subnets = { runc: `10.241.${2 * place}.0/24`, runsc: `10.241.${2 * place + 1}.0/24` }

for (const runtime of ['runc', 'runsc'] as const) {
  const open = (changes?: Partial<OciDriverOptions>) => openOciBench(runtime, subnets[runtime], changes)
  driverSuite(runtime, open)
  isolationSuite(runtime, open)
  limitsSuite(runtime, open)
  networkSuite(runtime, open)
  egressSuite(runtime, open)
  gateSuite(runtime, open)
  survivalSuite(runtime, open)
  snapshotSuite(runtime, open)
  ociSnapshotSuite(runtime, open)
}
