/** What the command line says to bad input: about the right thing, without the words of protocols and of the system. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { anyIsolation, joinWarren, type Warren } from '../support/warren.ts'
import { runCommandLine } from '../support/warren-command.ts'

const unknown = 'i12345678901234567890'
/** What to type, what it says, and the exit code. */
const cases: [string, RegExp, number][] = [
  ['snapshot delete nosuch', /^There is no snapshot 'nosuch'\. `warren snapshot list`/, 1],
  ['snapshot create nosuch', /Sandbox "nosuch" doesn't exist/, 1],
  [`snapshot create ${unknown}`, /Sandbox "i12345678901234567890" doesn't exist/, 1],
  ['template delete nosuch', /^There is no template 'nosuch'\. `warren template list`/, 1],
  ['template build . --memory 4x', /--memory is '4x', but must be MiB, or have a unit such as 4g/, 2],
  ['template build /nowhere --memory 4g', /There is no Dockerfile in \/nowhere/, 1],
  ['volume create a.b', /^NAME is 'a\.b', but must be of letters, digits/, 2],
  ['secret update mine', /^The value is empty: the command reads it from its input/, 1],
  ['sandbox list --state ended', /--state is 'ended', but must be one of running, paused/, 2],
  ['sandbox list --metadata web', /--metadata is 'web', but must be NAME=VALUE/, 2],
  ['sandbox logs nosuch', /"nosuch" doesn't exist/, 1],
  ['sandbox logs nosuch --level loud', /--level is 'loud', but must be one of debug, info, warn, error/, 2],
  ['sandbox ssh nosuch', /"nosuch" doesn't exist/, 125],
  ['run --image a/B true', /This is not the name of an image/, 125],
  ['run --cpu 3 true', /CPU count must be 1 or an even number/, 125],
  ['run --template base ubuntu:24.04', /An image and --template exclude each other/, 2],
  ['template build /nowhere', /There is no Dockerfile in \/nowhere/, 1],
  ['volume delete nosuch', /^There is no volume 'nosuch'\. `warren volume list`/, 1],
  ['volume create', /^NAME is missing\. Run `warren volume create --help`/, 2],
  ['secret delete nosuch', /Secret not found/, 1],
  ['webhook create https://x.test/', /^URL is missing: the command takes NAME URL, in this order\./, 2],
  ['webhook create mine https://x.test/', /^--secret SECRET is missing/, 2],
  ['webhook create mine https://x.test/ --secret s --event born', /--event is 'born', but must be one of/, 2],
  ['sandbox fork', /^SANDBOX is missing\. Run `warren sandbox fork --help`/, 2],
  [`sandbox fork ${unknown} --count -3`, /--count is '-3', but must be a whole number above 0/, 2],
  [`sandbox port ${unknown} http`, /^PORT is 'http', but must be a number/, 2],
  ['sandbox kill nosuch', /"nosuch" doesn't exist/, 1],
  [`sandbox exec ${unknown} true`, /doesn't exist/, 125],
  [`sandbox cp /nowhere/file ${unknown}:/tmp`, /doesn't exist/, 1],
  ['sandbox cp one two', /Either SOURCE or TARGET must be SANDBOX:PATH/, 2],
  ['sandbox create --timeout soon', /--timeout is 'soon', but must be a whole number/, 2],
  ['sandbox create --volume data', /--volume is 'data', but must be NAME:PATH/, 2],
  ['run --env A true', /--env is 'A', but must be NAME=VALUE/, 2],
  ['run --keep --rm true', /--keep and --rm exclude each other/, 2],
  ['run', /^A command is missing/, 2],
  ['team limits default --sandboxes -3', /--sandboxes is '-3', but must be a whole number above 0/, 2],
  ['team older-clients default perhaps', /'perhaps' is neither yes nor no/, 2],
  ['completion csh', /'csh' is not supported/, 2],
  ['prune now', /^Unknown argument 'now'/, 2],
]
/** Words that no person should have to read. */
const leaks =
  /ENOENT|EACCES|\b(?:POST|GET|DELETE) |\/\{|undefined|\[object|did not expect|Error:|\bat .*:\d+:\d+/

describe('messages of the command line', () => {
  let warren: Warren
  const folder = mkdtempSync(join(tmpdir(), 'warren-messages-'))
  before(async () => {
    warren = await joinWarren(anyIsolation)
  })
  after(async () => {
    rmSync(folder, { recursive: true })
    await warren?.stop()
  })
  const run = (...args: string[]) => runCommandLine(warren.environment, args)

  for (const [line, says, code] of cases) {
    it(`answers warren ${line}`, async () => {
      const ended = await run(...line.split(' '))
      assert.deepEqual([ended.code, ended.out], [code, ''], ended.error)
      assert.match(ended.error, says)
      assert.doesNotMatch(ended.error, leaks)
      assert.equal(ended.error.trimEnd().split('\n').length, 1, ended.error)
    })
  }

  it('says how to go on where a secret has the name already', async () => {
    const create = () => runCommandLine(warren.environment, ['secret', 'create', 'twice'], { input: 'value' })
    assert.equal((await create()).code, 0)
    const again = await create()
    const said = "There is a secret 'twice' already. `warren secret update twice` stores its next version.\n"
    assert.deepEqual([again.code, again.error], [1, said])
  })

  it('tells the error of a build once, and counts one file as one', async () => {
    const project = join(folder, 'failing')
    mkdirSync(project)
    writeFileSync(join(project, 'Dockerfile'), 'FROM e2bdev/base\nCOPY one /one\nRUN exit 7\n')
    writeFileSync(join(project, 'one'), 'file')
    const ended = await run('template', 'build', project)
    assert.equal(ended.code, 1)
    assert.match(ended.out, /Sending 1 file of COPY one/)
    assert.match(ended.error, /^The build failed in line 3 of the Dockerfile: .*7/)
    assert.equal(`${ended.out}${ended.error}`.match(/build failed/gi)?.length, 1)
  })

  it('lists base among the templates', async () => {
    const ended = await run('template', 'list')
    assert.match(ended.out, /^TEMPLATE .*\nbase +\S+ +ready /)
  })

  it('says how long a build waits for its start command', async () => {
    const project = join(folder, 'waiting')
    mkdirSync(project)
    writeFileSync(join(project, 'Dockerfile'), 'FROM e2bdev/base\nCMD ["sleep", "1000"]\n')
    const ended = await run('template', 'build', project)
    assert.equal(ended.code, 0, ended.error)
    assert.match(
      ended.out,
      /so the build waits\. --ready-cmd shortens that\.\n15 seconds left\.\n10 seconds left/,
    )
  })
})
