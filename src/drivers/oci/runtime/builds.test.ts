import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { describeBuild, findBuild, findBuildByHash, restoresHostname } from './builds.ts'

describe('a build of gVisor', () => {
  it('is identified by the hash of all its bytes', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'warren-builds-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    const bytes = randomBytes(1_000_003)
    writeFileSync(join(folder, 'runsc'), bytes)
    const { sha256, size } = await describeBuild(join(folder, 'runsc'))
    assert.deepEqual([sha256, size], [createHash('sha256').update(bytes).digest('hex'), bytes.length])
  })

  it('of an earlier release is found beside the current one, also for a snapshot of another machine', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'warren-builds-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    const put = (version: string) => {
      const path = join(folder, `runsc-${version}`, 'runsc')
      mkdirSync(dirname(path))
      writeFileSync(path, `of version ${version}`)
      return path
    }
    const [older, current] = [put('1'), put('2')]
    mkdirSync(join(folder, 'runsc-that-is-being-built'))
    const build = await describeBuild(older)
    assert.equal(await findBuildByHash(build.sha256, current), older)
    assert.equal(await findBuild({ ...build, path: '/elsewhere/runsc', mtimeMs: 1 }, current), older)
    rmSync(older)
    assert.equal(await findBuildByHash(build.sha256, current), undefined)
    await assert.rejects(findBuild({ ...build, path: '/elsewhere/runsc' }, current), /another build/)
  })

  it('restores hostnames if its binary has the function for it, and only then', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'warren-builds-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    const build = (name: string, content: string) => {
      writeFileSync(join(folder, name), `\0\x7fELF\n\0${content}\0`)
      return join(folder, name)
    }
    assert.equal(await restoresHostname(build('new', 'kernel.(*UTSNamespace).RestoreSpecValues')), true)
    assert.equal(await restoresHostname(build('old', 'kernel.(*UTSNamespace).SetHostName')), false)
  })

  it('is read again after the file was replaced', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'warren-builds-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    const path = join(folder, 'runsc')
    writeFileSync(path, 'nothing')
    assert.equal(await restoresHostname(path), false)
    writeFileSync(path, 'kernel.(*UTSNamespace).RestoreSpecValues')
    assert.equal(await restoresHostname(path), true)
  })
})
