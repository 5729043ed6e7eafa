import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { silentLog } from '../../lib/log.ts'
import { Measures } from '../../lib/measures.ts'
import { addConnectionGauges } from './connection-gauges.ts'
import { createPrometheus } from './prometheus.ts'

test('the metrics tell how full the machine’s table of connections is, and nothing where there is none', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'warren-connections-'))
  const measures = new Measures()
  addConnectionGauges(measures, folder)
  const read = async () => (await createPrometheus(measures, silentLog)()).text
  assert.doesNotMatch(await read(), /^warren_machine_connections/m)
  await writeFile(join(folder, 'nf_conntrack_count'), '1089\n')
  await writeFile(join(folder, 'nf_conntrack_max'), '262144\n')
  assert.match(await read(), /^warren_machine_connections 1089$/m)
  assert.match(await read(), /^warren_machine_connections_max 262144$/m)
  await rm(folder, { recursive: true })
})
