/**
 * Tells a sandbox that somebody used before, or that shares with another what must be its own: files and processes that
 * an earlier use left, random numbers, and, where each sandbox has its own kernel, the identity of its boot.
 */
import type { Sandbox } from 'e2b'
import type { Isolation } from '../../support/warren.ts'

/** Written so that neither the script nor grep itself shows the number that the process is known by. */
const script = `
for file in /tmp/.seen /var/tmp/.seen /dev/shm/.seen ~/.seen; do
  [ -e "$file" ] && echo "found $file"; touch "$file"
done
grep -qs '[8]6399' /proc/[0-9]*/cmdline && echo "found the process of an earlier use"
nohup sleep $((86398 + 1)) >/dev/null 2>&1 &
echo "urandom $(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')"
echo "bash $RANDOM$RANDOM$RANDOM$RANDOM"
echo "python $(python3 -c 'import random, uuid; print(random.random(), uuid.uuid4())')"
echo "node $(node -p 'Math.random()')"
echo "boot $(cat /proc/sys/kernel/random/boot_id)"`

export class ReuseDetector {
  readonly #seen = new Set<string>()
  readonly #ownKernel: boolean

  constructor(isolation: Isolation) {
    this.#ownKernel = isolation === 'gvisor'
  }

  /** Rejects with what gives the sandbox away. */
  async check(sandbox: Sandbox): Promise<void> {
    const { stdout } = await sandbox.commands.run(script)
    const lines = stdout.trim().split('\n')
    // Containers have the kernel of the machine, and so its boot.
    const own = lines.filter((line) => this.#ownKernel || !line.startsWith('boot '))
    const signs = own.filter((line) => line.startsWith('found ') || this.#seen.has(line))
    for (const line of own) this.#seen.add(line)
    if (lines.length < 5 || signs.length > 0) throw new Error(`a used sandbox: ${signs.join(', ') || stdout}`)
  }
}
