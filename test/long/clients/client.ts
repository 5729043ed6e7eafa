/** What every release of the JavaScript client can do. Arguments: the folder with the package, and its name. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'

/** As much of the client as all releases have in common. */
type AnySandbox = {
  sandboxId: string
  commands: { run(command: string, options?: object): Promise<{ stdout: string; exitCode: number }> }
  files: { write(path: string, text: string): Promise<unknown>; read(path: string): Promise<string> }
  isRunning(): Promise<boolean>
  kill(): Promise<unknown>
}
type AnyClient = { create(options: object): Promise<AnySandbox>; connect(id: string): Promise<AnySandbox> }

const [, , folder, packageName] = process.argv
const { Sandbox }: { Sandbox: AnyClient } = createRequire(`${folder}/`)(packageName!)

const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
try {
  assert.equal((await sandbox.commands.run('echo hello from $(whoami)')).stdout, 'hello from user\n')
  assert.equal((await sandbox.commands.run('id -un', { user: 'root' })).stdout, 'root\n')
  const text = 'a line\nand one with signs: äöü ✓\n'
  await sandbox.files.write('/home/user/folder/note.txt', text)
  assert.equal(await sandbox.files.read('/home/user/folder/note.txt'), text)
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.equal((await again.commands.run('cat folder/note.txt')).stdout, text)
  assert.equal(await sandbox.isRunning(), true)
} finally {
  await sandbox.kill()
}
assert.equal(await sandbox.isRunning(), false)
console.log('done')
