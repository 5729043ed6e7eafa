/** Where a text that should be nowhere can be found: in files of a Warren, and in what processes show of themselves. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** What was made before any text was given, and what shows the machine itself. */
const others = ['templates', 'runtimes', 'images/layers', 'sys']

/** The disks of running sandboxes, which nothing of the server is on, are left out: they are large and mounted. */
export function filesWith(folder: string, ...texts: string[]): string[] {
  const skip = others.flatMap((name, index) => [...(index > 0 ? ['-o'] : []), '-path', join(folder, name)])
  const files = ['-type', 'f', '-size', '-2000000k']
  const grep = ['grep', '-laF', ...texts.flatMap((text) => ['-e', text])]
  const args = [folder, '-xdev', '(', ...skip, ')', '-prune', '-o', ...files, '-exec', ...grep, '{}', '+']
  const found = spawnSync('find', args, { encoding: 'utf8', timeout: 600_000 })
  assert.equal(found.signal, null)
  return found.stdout.split('\n').filter((line) => line !== '')
}

/** Command lines and environments of all processes of the machine; those that end meanwhile are left out. */
export function processesWith(text: string): string[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.flatMap((pid) =>
    ['cmdline', 'environ'].flatMap((name) => {
      const file = `/proc/${pid}/${name}`
      try {
        return readFileSync(file, 'latin1').includes(text) ? [file] : []
      } catch {
        return []
      }
    }),
  )
}
