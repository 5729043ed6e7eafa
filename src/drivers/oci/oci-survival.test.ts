/** What happens to sandboxes when their maker dies. */
import { isolations } from '../../../test/support/warren.ts'

import { runOciSuites } from './suite/runtimes.ts'
import { survivalSuite } from './suite/survival.ts'

for (const isolation of isolations) runOciSuites(isolation, [survivalSuite])
