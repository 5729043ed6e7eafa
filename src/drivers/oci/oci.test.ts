import { driverSuite } from '../driver-suite.ts'
import { openOciBench } from './suite-bench.ts'

const runtimes = { runc: '10.241.0.0/24', runsc: '10.241.1.0/24' } as const

for (const runtime of ['runc', 'runsc'] as const) {
  const open = () => openOciBench(runtime, runtimes[runtime])
  driverSuite(runtime, open)
}
