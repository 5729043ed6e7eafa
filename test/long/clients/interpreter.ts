/** What every release of the JavaScript client of the code interpreter can do. Argument: the folder with the package. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'

/** As much of the client as all releases have in common. */
type AnySandbox = {
  sandboxId: string
  runCode(code: string, options?: object): Promise<{ text?: string }>
  createCodeContext(options: object): Promise<object>
  commands: { run(command: string): Promise<{ stdout: string }> }
  kill(): Promise<unknown>
}
type AnyClient = { create(options: object): Promise<AnySandbox>; connect(id: string): Promise<AnySandbox> }

const [, , folder] = process.argv
const { Sandbox }: { Sandbox: AnyClient } = createRequire(`${folder}/`)('@e2b/code-interpreter')

const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
try {
  await sandbox.runCode('x = 20')
  assert.equal((await sandbox.runCode('x + 1')).text, '21')
  assert.equal((await sandbox.commands.run('whoami')).stdout, 'user\n')
  const context = await sandbox.createCodeContext({ cwd: '/tmp' })
  assert.equal((await sandbox.runCode('import os; os.getcwd()', { context })).text, '/tmp')
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.equal((await again.runCode('x + 2')).text, '22')
} finally {
  await sandbox.kill()
}
console.log('done')
