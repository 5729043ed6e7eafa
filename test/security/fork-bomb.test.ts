/** Fork bombs with the limits that every sandbox has, and how one is ended through the client, on both isolations (I4). */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { attackAgents, type Target } from '../support/agent-target.ts'
import { eventually } from '../support/eventually.ts'
import { isolations, joinWarren } from '../support/warren.ts'

/** Every process starts others for as long as it can, says so when it cannot any more, and then stays. */
const stayingBomb = `while (1) { next if defined fork; my $why = $!; open my $out, ">>", "/tmp/full"; print $out "$why\\n"; close $out; sleep 1000 }`
/** The classic: its processes end and are replaced. */
const shellBomb = `bomb() { bomb | bomb & }; bomb 2>>/tmp/full; sleep 1000`

const bombs = {
  'whose processes stay': ['perl', '-e', stayingBomb, 'bomb-of-the-test'],
  'of a shell': ['bash', '-c', shellBomb, 'bomb-of-the-test'],
} as const
const starters = { user: [], root: ['sudo'] } as const

const quote = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`
const findBomb = 'pgrep -f [b]omb-of-the-test'
/** Stopped first, so that none of them starts another while they are being killed. */
const endBomb = 'pkill -STOP -f [b]omb-of-the-test; pkill -KILL -f [b]omb-of-the-test'

async function startBomb({ sandbox }: Target, words: readonly string[]): Promise<void> {
  await sandbox.commands.run('rm -f /tmp/full', { user: 'root' })
  await sandbox.commands.run(`exec ${words.map(quote).join(' ')} >/dev/null 2>&1`, { background: true })
}

/** The output of a command, or nothing where it could not be run for want of processes. */
async function tryShell(target: Target, command: string): Promise<string | undefined> {
  return target.shell(command, 'root').catch(() => undefined)
}

function forkBombTests(mine: () => Target, theirs: () => Target): void {
  for (const [user, before] of Object.entries(starters)) {
    for (const [shape, words] of Object.entries(bombs)) {
      describe(`a fork bomb ${shape}, as ${user}`, () => {
        it('gets errors, is seen and ended from outside, and harms no neighbour', async () => {
          const bomb = [...before, ...words]
          await startBomb(mine(), bomb)
          await eventually(async () => {
            const full = await tryShell(mine(), 'cat /tmp/full 2>/dev/null')
            assert.match(full ?? '', /Resource temporarily unavailable/)
          })
          assert.equal(await theirs().shell('echo alive'), 'alive')
          const seen = (await mine().shell(findBomb, 'root')).split('\n')
          assert.ok(seen.length > 50, `${seen.length} processes of the bomb were seen`)
          await eventually(async () => {
            await tryShell(mine(), endBomb)
            assert.equal(await tryShell(mine(), `${findBomb} || echo none`), 'none')
          })
          assert.equal(await mine().shell('echo alive'), 'alive')
        })
      })
    }
  }
}

for (const isolation of isolations) {
  attackAgents(`fork bombs in sandboxes of ${isolation}`, () => joinWarren(isolation), forkBombTests)
}
