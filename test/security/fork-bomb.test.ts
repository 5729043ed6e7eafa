/** Fork bombs with the limits that every sandbox has, and how one is ended through the client, on both isolations (I4). */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { attackAgents, Target } from '../support/agent-target.ts'
import { eventually } from '../support/eventually.ts'
import { readLog } from '../support/read-log.ts'
import { type Isolation, isolations, joinWarren } from '../support/warren.ts'

/** Every process starts others for as long as it can, says so when it cannot any more, and then stays. */
const stayingBomb = `while (1) { next if defined fork; my $why = $!; open my $out, ">>", "/tmp/full"; print $out "$why\\n"; close $out; sleep 1000 }`
/** The classic: its processes end and are replaced. When all were refused a fork and have ended, it begins again. */
const shellBomb = `bomb() { bomb | bomb & }; bomb 2>>/tmp/full`
const repeated = 'while (1) { system("bash", "-c", $ARGV[0], "bomb-of-the-test"); sleep 1 }'

/** One process with as many threads as it can get. */
const threadBomb = `
import threading, time
def stay(): time.sleep(1000)
while True:
    try: threading.Thread(target=stay).start()
    except RuntimeError as error:
        with open('/tmp/full', 'a') as out: print(error, file=out)
        time.sleep(1000)`

const bombs = {
  'whose processes stay, as user': ['perl', '-e', stayingBomb, 'bomb-of-the-test'],
  'whose processes stay, as root': ['sudo', 'perl', '-e', stayingBomb, 'bomb-of-the-test'],
  'of a shell, as user': ['perl', '-e', repeated, shellBomb, 'bomb-of-the-test'],
  'of threads, as user': ['python3', '-c', threadBomb, 'bomb-of-the-test'],
} as const
type Shape = keyof typeof bombs

/** Each process costs gVisor milliseconds of CPU time. Root's bombs have a test of their own there. */
const shapesOf: Record<Isolation, readonly Shape[]> = {
  container: Object.keys(bombs) as Shape[],
  gvisor: ['whose processes stay, as user', 'of threads, as user'],
}

const quote = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`
/** Threads too: of the first processes, so that the count itself ends soon. */
const countBomb =
  'for pid in $(pgrep -f [b]omb-of-the-test | head -n 100); do ls /proc/$pid/task 2>/dev/null; done | wc -l'
/** Stopped first, so that none of them starts another while they are being killed. */
const endBomb =
  'while pkill -STOP -f [b]omb-of-the-test; do pkill -KILL -f [b]omb-of-the-test; done; echo ended'

async function startBomb({ sandbox }: Target, words: readonly string[]): Promise<void> {
  await sandbox.commands.run('rm -f /tmp/full', { user: 'root' })
  await sandbox.commands.run(`exec ${words.map(quote).join(' ')} >/dev/null 2>&1`, {
    background: true,
    timeoutMs: 0,
  })
}

/** The output of a command, or nothing where it could not be run for want of processes. */
async function tryShell(target: Target, command: string): Promise<string | undefined> {
  return target.shell(command, 'root').catch(() => undefined)
}

function forkBombTests(shapes: readonly Shape[], mine: () => Target, theirs: () => Target): void {
  for (const shape of shapes) {
    it(`a bomb ${shape}, gets errors, is seen and ended from outside, and harms no neighbour`, async () => {
      await startBomb(mine(), bombs[shape])
      await eventually(async () => {
        const full = await tryShell(mine(), 'head -c 1000 /tmp/full')
        assert.match(full ?? '', /Resource temporarily unavailable|can't start new thread/)
      })
      assert.equal(await theirs().shell('echo alive'), 'alive')
      // A shell's bomb shrinks for a moment each time that its forks are refused.
      await eventually(async () => {
        const seen = Number(await mine().shell(countBomb, 'root'))
        assert.ok(seen > 20, `${seen} processes and threads of the bomb were seen`)
      })
      assert.equal(await mine().shell(endBomb, 'root'), 'ended')
      assert.equal(await mine().shell('echo alive'), 'alive')
    })
  }
}

for (const isolation of isolations) {
  attackAgents(
    `fork bombs in sandboxes of ${isolation}`,
    () => joinWarren(isolation),
    (mine, theirs) => forkBombTests(shapesOf[isolation], mine, theirs),
  )
}

if (isolations.includes('gvisor')) {
  // CAP_SYS_ADMIN exempts root from gVisor's limit of processes, so the limits of the host's cgroups are the first to hold.
  it('a bomb of root under gVisor ends its own sandbox and no other, and the log has the reason', async () => {
    const warren = await joinWarren('gvisor')
    const [mine, theirs] = [await Target.create(warren), await Target.create(warren)]
    try {
      await startBomb(mine, bombs['whose processes stay, as root'])
      await eventually(async () => {
        assert.equal(await theirs.shell('echo alive'), 'alive')
        const last = (await readLog(warren, mine.sandbox.sandboxId)).at(-1)
        assert.match(
          last?.message ?? '',
          /^Sandbox ended: (it used more memory than it has|.* more processes)/,
        )
      })
      assert.equal(await theirs.shell('echo alive'), 'alive')
    } finally {
      await mine.sandbox.kill()
      await theirs.sandbox.kill()
      await warren.stop()
    }
  })
}
