/** The base template of a start that is killed, again and again: each start goes on where the one before was. */
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { basePackages } from '../../src/app/setup/base-recipe.ts'
import { inRoot } from '../../src/app/setup/debian-root.ts'
import { repoFolder } from '../support/warren.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-interrupted-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const templates = join(folder, 'templates')

const program = `
import { makeBaseRoot } from '${repoFolder}/src/app/setup/base-root.ts'
const progress = {
  note: (line) => process.stdout.write(line + '\\n'),
  step: (title, work) => (process.stdout.write(title + '\\n'), work((share, detail) => process.stdout.write(detail + '\\n'))),
}
const made = await makeBaseRoot('${templates}', 'debootstrap:bookworm', '${folder}/cache', progress)
process.stdout.write('made ' + made.folder + '\\n')`

/** Kills the start when it says this. Returns all that it said. */
async function startUntil(mark: RegExp): Promise<string> {
  const node = join(repoFolder, 'bin/node')
  const child = spawn(node, ['--input-type=module', '-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  child.stdout.setEncoding('utf8')
  child.stdout.on('data', (text: string) => {
    said += text
    if (mark.test(said)) child.kill('SIGKILL')
  })
  await once(child, 'close')
  return said
}

const unfinished = () => readdirSync(templates).filter((name) => /^partial-[^.]*$/.test(name))

test('a start goes on with the base template of one that was killed in any phase', async () => {
  const goesOn = /^Go on with the base template that an earlier start began/
  assert.match(await startUntil(/extracting/), /^Make the base template/)
  const [lost] = unfinished()
  assert.match(await startUntil(/Installing git /), /^Make the base template/)
  const [begun] = unfinished()
  assert.notEqual(begun, lost, 'a root without its first phase is begun anew')
  // apt is in the middle of its packages, and dpkg in that of one.
  for (const mark of [/Configuring|Installed git /, /adding Node/, /finishing/]) {
    const said = await startUntil(mark)
    assert.match(said, goesOn)
    assert.doesNotMatch(said, /made anew/)
    assert.deepEqual(unfinished(), [begun])
  }
  const said = await startUntil(/never/)
  assert.match(said, goesOn)
  assert.doesNotMatch(said, /retrieving|Installing/, 'it did again what was done')
  const root = /^made (.+)$/m.exec(said)![1]!
  assert.deepEqual(unfinished(), [])

  const [enter, ...words] = inRoot(root)
  const inside = (...command: string[]) => execFileSync(enter!, [...words, ...command], { encoding: 'utf8' })
  assert.equal(inside('dpkg', '--audit'), '')
  const installed = inside('dpkg-query', '-W', '-f', `\${Package} \${db:Status-Abbrev}\n`)
  for (const name of basePackages)
    assert.match(installed, new RegExp(`^${name.replaceAll('+', '\\+')} ii`, 'm'))
  assert.equal(
    inside('su', '-', 'user', '-c', 'node --version && python3 --version && id').split('\n').length,
    4,
  )
  assert.equal(readFileSync(join(root, 'etc/profile'), 'utf8').match(/LANG:-C\.UTF-8/g)?.length, 1)
  assert.ok(!existsSync(join(root, 'usr/sbin/policy-rc.d')))
})
