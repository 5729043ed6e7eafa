/** Runs the tests of the network, of slots that are used again, and of root with nearly all capabilities. */
import { isolations } from '../../../test/support/warren.ts'
import { egressSuite } from './suite/egress.ts'
import { flowsSuite } from './suite/flows.ts'
import { fullRootSuite } from './suite/full-root.ts'
import { gateSuite } from './suite/gate.ts'
import { networkSuite } from './suite/network.ts'
import { ownAddressSuite } from './suite/own-address.ts'
import { runOciSuites } from './suite/runtimes.ts'
import { slotReuseSuite } from './suite/slot-reuse.ts'

for (const isolation of isolations)
  runOciSuites(isolation, [
    networkSuite,
    ownAddressSuite,
    egressSuite,
    gateSuite,
    flowsSuite,
    slotReuseSuite,
    fullRootSuite,
  ])
