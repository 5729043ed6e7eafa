import assert from 'node:assert/strict'
import { chmod, lstat, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { isAppError } from '../../../lib/app-error.ts'
import { prepareRoot } from './prepare-root.ts'

const base = 100_000

describe('a prepared root', () => {
  let folder: string
  let root: string
  const oddName = Buffer.from([0x66, 0xff, 0xfe])
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'warren-root-'))
    root = join(folder, 'root')
    await mkdir(join(root, 'bin'), { recursive: true })
    await writeFile(join(root, 'bin', 'sudo'), '')
    await chmod(join(root, 'bin', 'sudo'), 0o4755)
    await symlink('/etc/passwd', join(root, 'link'))
    await writeFile(Buffer.concat([Buffer.from(`${root}/`), oddName]), '')
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  const ownerAndMode = async (path: string) => {
    const { uid, gid, mode } = await lstat(join(root, path))
    return [uid, gid, (mode & 0o7777).toString(8)]
  }

  it('belongs to the mapped users, links and odd names included, and keeps its setuid bits', async () => {
    const outside = (await lstat('/etc/passwd')).uid
    await prepareRoot(root, base)
    assert.deepEqual(await ownerAndMode('bin/sudo'), [base, base, '4755'])
    assert.equal((await ownerAndMode('link'))[0], base)
    assert.equal((await lstat(Buffer.concat([Buffer.from(`${root}/`), oddName]))).uid, base)
    assert.equal((await lstat('/etc/passwd')).uid, outside)
  })

  it('is not changed the second time', async () => {
    await prepareRoot(root, base)
    await writeFile(join(root, 'later'), '')
    await prepareRoot(root, base)
    assert.equal((await ownerAndMode('later'))[0], 0)
  })

  it('is complete even if an earlier attempt ended after the owners were set and before the setuid bits', async () => {
    const noted = [[Buffer.from(join(root, 'bin', 'sudo')).toString('hex'), 0o4755]]
    await writeFile(`${root}.preparing-${base}`, JSON.stringify(noted))
    await chmod(join(root, 'bin', 'sudo'), 0o755)
    await prepareRoot(root, base)
    assert.deepEqual(await ownerAndMode('bin/sudo'), [base, base, '4755'])
    assert.deepEqual((await readdir(folder)).sort(), ['root', `root.prepared-${base}`])
  })

  it('can be prepared by two callers at once', async () => {
    await Promise.all([prepareRoot(root, base), prepareRoot(root, base)])
    assert.deepEqual(await ownerAndMode('bin/sudo'), [base, base, '4755'])
  })

  it('must be a folder', async () => {
    await assert.rejects(prepareRoot(join(folder, 'nothing'), base), (error) =>
      isAppError(error, 'not_found'),
    )
    await assert.rejects(prepareRoot(`${root},upperdir=x`, base), (error) =>
      isAppError(error, 'invalid_argument'),
    )
  })
})
