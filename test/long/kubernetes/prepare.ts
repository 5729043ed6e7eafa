/** `prepare.ts FOLDER`: makes Helm, an S3 server, and gVisor with the base template, and links the programs into the folder. */
import { rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { buildHelm } from '../../chart/chart-files.ts'
import { installVersitygw } from '../../support/object-store.ts'
import { testMachine } from '../../support/test-machine.ts'

const folder = process.argv[2]!
for (const [name, path] of [
  ['helm', await buildHelm()],
  ['versitygw', await installVersitygw()],
] as const) {
  rmSync(join(folder, name), { force: true })
  symlinkSync(path, join(folder, name))
}
await testMachine()
