/** The base template is a layer of the store like any other, also in a data folder of an older Warren. */
import assert from 'node:assert/strict'
import { readdirSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, describe, it } from 'node:test'
import { Sandbox, Template } from 'e2b'
import { sayIn } from '../support/building.ts'
import { anyIsolation, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

type Row = { id: string; layers: string | null; root_folder: string | null }

function baseBuilds({ dataFolder }: Warren): Row[] {
  using database = new DatabaseSync(join(dataFolder, 'warren.db'))
  const rows = database
    .prepare(
      `select b.id, b.layers, b.root_folder from template_builds b
       join template_aliases a on a.template_id = b.template_id
       where a.alias = 'base' and a.namespace = '' order by b.created_at`,
    )
    .all()
  return rows as Row[]
}

describe('the base template', () => {
  let warren: Warren
  afterEach(() => warren?.stop())

  it('has its root as a layer without a copy, and sandboxes of an older Warren keep running', async () => {
    warren = await startWarren(anyIsolation, { settings: noWarmPool })
    const [first, ...more] = baseBuilds(warren)
    assert.deepEqual([more, first?.root_folder], [[], null])
    const [layer] = JSON.parse(first!.layers!) as string[]
    const link = join(warren.dataFolder, 'images/layers', layer!.slice('sha256:'.length), 'root')
    const root = readlinkSync(link)
    assert.equal(realpathSync(link), realpathSync(root))
    assert.match(root, /\/templates\/base-[0-9a-f]+$/)
    assert.equal(await sayIn(warren, 'base', 'whoami'), 'user\n')
    const template = Template().fromTemplate('base').runCmd('echo built > built')
    await Template.build(template, 'on-base', warren.client)

    // As an older version had written it: the root by its folder, and nothing in the store.
    await warren.stop()
    {
      using database = new DatabaseSync(join(warren.dataFolder, 'warren.db'))
      const change = 'update template_builds set layers = null, root_folder = ?'
      database.prepare(change).run(`templates/${root.split('/').at(-1)}`)
    }
    warren = await startWarren(anyIsolation, { keepData: true, settings: noWarmPool })
    const [old, upgraded, ...others] = baseBuilds(warren)
    assert.deepEqual([others, old!.id, old!.layers], [[], first!.id, null])
    assert.deepEqual(JSON.parse(upgraded!.layers!), [layer])
    assert.equal(await sayIn(warren, 'on-base', 'cat built'), 'built\n')
    const options = { ...warren.client, timeoutMs: 3_600_000 }
    const sandbox = await Sandbox.create(`base:${old!.id}`, options)
    await sandbox.files.write('/home/user/note', 'mine')
    const fresh = await Sandbox.create('base', options)
    await sandbox.pause()

    // Both live on over a restart that makes nothing anew.
    await warren.stop()
    const made = statSync(root)
    warren = await startWarren(anyIsolation, { keepData: true, settings: noWarmPool })
    const before = statSync(root)
    assert.deepEqual([before.ino, before.ctimeMs], [made.ino, made.ctimeMs])
    assert.equal(baseBuilds(warren).length, 2)
    const resumed = await Sandbox.connect(sandbox.sandboxId, warren.client)
    assert.equal((await resumed.commands.run('cat note; whoami')).stdout, 'mineuser\n')
    assert.equal((await fresh.commands.run('echo alive')).stdout, 'alive\n')
    await Promise.all([resumed.kill(), fresh.kill()])
    assert.deepEqual(
      readdirSync(join(warren.dataFolder, 'images/layers')).filter((name) => name.startsWith('.')),
      [],
    )
  })
})
