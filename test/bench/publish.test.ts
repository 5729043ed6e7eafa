import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { repoFolder } from '../support/warren.ts'
import { withFigures, withWork } from './publish.ts'
import type { SavedReport } from './report.ts'

const readme = readFileSync(join(repoFolder, 'README.md'), 'utf8')
const last = 'burst of 100, until the last has answered'

function measured(ms: Record<string, number>): SavedReport {
  const rows = Object.entries(ms).map(([name, value]) => ({
    name,
    unit: 'ms' as const,
    samples: [value],
    failures: [],
  }))
  return {
    date: '2026-11-16',
    machine: { cpus: 2, kernel: '6.18', load: 0 },
    report: { title: 'Time to interactive', rows },
  }
}

describe('the figures of the README', () => {
  it('are replaced by the latest measurements, and figures published by others stay', () => {
    const page = withFigures(
      readme,
      measured({
        'warren container · sequential': 38.4,
        'warren gvisor · sequential': 91.6,
        'docker · sequential': 333,
        [`warren container · ${last}`]: 9_870,
        [`warren gvisor · ${last}`]: 20_400,
        [`docker · ${last}`]: 17_100,
      }),
    )
    const lines = page.split('\n').filter((line) => !readme.includes(line))
    assert.equal(lines.length, 2)
    assert.match(lines[0]!, /\| 38 ms containers, 92 ms gVisor \(warm pool\) \| 491 ms \|.*\| 333 ms \|$/)
    assert.match(
      lines[1]!,
      /\| 9\.9 s containers, 20 s gVisor, on 2 cores \| 1\.3 s, on their cloud \|.*\| 17 s, on the same 2 cores \|$/,
    )
  })

  it('of work inside a sandbox become those that were measured last', () => {
    const job = 'pytest, 1,000 tests'
    const page = withWork(
      readme,
      measured({
        [`warren container · ${job}`]: 2_000,
        [`warren gvisor · ${job}`]: 5_110,
        [`docker · ${job}`]: 1_000,
      }),
    )
    const lines = page.split('\n').filter((line) => !readme.includes(line))
    assert.deepEqual(lines, [
      `| ${job} | 2.0 s | 5.1 s | 1.0 s | 2.6 × | 5.1 × |`,
      'The work of agents was measured on 2026-11-16: 2 cores, load 0.0, medians of 1.',
    ])
  })

  it('stay unchanged if nothing was measured', () => {
    assert.equal(withFigures(readme, measured({ 'docker · another': 1 })), readme)
  })
})
