/** Sandboxes with GPUs as containers: gVisor passes calls on only to a real driver, so test/gpu has that part. */
import { anyIsolation } from '../../../test/support/warren.ts'
import { gpuSuite } from './suite/gpu.ts'
import { runOciSuites } from './suite/runtimes.ts'

runOciSuites(anyIsolation, [gpuSuite])
