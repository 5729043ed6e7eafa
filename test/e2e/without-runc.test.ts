/** A machine whose apt cannot install runc: a start succeeds, because gVisor does not need runc. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { Sandbox } from 'e2b'
import { noWarmPool, repoFolder, startWarren } from '../support/warren.ts'

/** Starts Warren where runc is not, and where apt-get always fails; both only for what it starts. */
const launcher = (folder: string) => `#!/bin/sh
exec unshare --mount --propagation slave sh -ec '
mount -t tmpfs none ${folder}
for bin in /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin; do
  mkdir -p ${folder}$bin/upper ${folder}$bin/work
  mount -t overlay -o lowerdir=$bin,upperdir=${folder}$bin/upper,workdir=${folder}$bin/work none $bin
  rm -f $bin/runc
done
printf "#!/bin/sh\\necho no package of this name >&2\\nexit 100\\n" > /usr/bin/apt-get
exec ${repoFolder}/bin/warren "$@"' sh "$@"
`

it('a start whose apt cannot install runc says so and serves sandboxes under gVisor', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'warren-without-runc-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const program = `${folder}-start`
  writeFileSync(program, launcher(folder), { mode: 0o755 })
  t.after(() => rmSync(program))
  const warren = await startWarren('gvisor', { name: 'no-runc', program, settings: noWarmPool })
  t.after(() => warren.stop())
  const said = readFileSync(warren.logFile, 'utf8')
  assert.match(said, /continues without runc, since sandboxes get gVisor\. .*no package of this name/s)
  const sandbox = await Sandbox.create('base', warren.client)
  assert.equal((await sandbox.commands.run('echo lives')).stdout, 'lives\n')
  await sandbox.kill()
})
