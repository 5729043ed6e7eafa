/** Packs our own files into an archive for a template's step. */
import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../../lib/run-command.ts'

/**
 * Makes an archive with one folder of that name, which `write` fills; the archive is identified by its
 * contents.
 */
export async function packFiles(
  name: string,
  write: (folder: string) => Promise<void>,
): Promise<{ hash: string; archive: Buffer }> {
  const work = await mkdtemp(join(tmpdir(), `warren-${name}-`))
  try {
    const folder = join(work, name)
    await write(folder)
    const hash = createHash('sha256')
    const paths = (await readdir(folder, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
    for (const path of paths.sort())
      hash.update(`${path.slice(folder.length)}\n`).update(await readFile(path))
    const archive = join(work, `${name}.tar`)
    await runCommand('tar', ['-C', work, '--owner=0', '--group=0', '-cf', archive, name])
    return { hash: hash.digest('hex'), archive: await readFile(archive) }
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}
