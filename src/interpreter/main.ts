/** The program on port 49999 of a code interpreter's sandbox. Its launcher restarts it when it ends. */
import { dirname } from 'node:path'
import { systemClock } from '../lib/clock.ts'
import { readSandboxVariables } from './sandbox-variables.ts'
import { createInterpreter } from './server.ts'

const port = 49_999

const interpreter = createInterpreter({
  kernelsFolder: dirname(process.argv[1]!),
  homeFolder: '/home/user',
  readVariables: (accessToken) => readSandboxVariables(accessToken),
  clock: systemClock,
})
// A fault in one request must not end the contexts of all others.
process.on('uncaughtException', (error) => process.stderr.write(`${error.stack ?? error}\n`))
interpreter.server.listen(port, '0.0.0.0')
void interpreter.start().catch((error) => {
  process.stderr.write(`The kernels could not be started: ${error}\n`)
  process.exit(1)
})
