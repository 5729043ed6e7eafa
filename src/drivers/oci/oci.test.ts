import { driverSuite } from '../driver-suite.ts'
import { openOciBench } from './suite-bench.ts'
import { isolationSuite } from './suite-isolation.ts'

const subnets = { runc: '10.241.0.0/24', runsc: '10.241.1.0/24' }

for (const runtime of ['runc', 'runsc'] as const) {
  const open = () => openOciBench(runtime, subnets[runtime])
  driverSuite(runtime, open)
  isolationSuite(runtime, open)
}
