/** The machine itself, with the programs of the base template: what work costs where no wall is around it. */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { runCommand } from '../../../src/lib/run-command.ts'
import { cacheFolder } from '../../support/warren.ts'

/** What is written lies in an overlay, which goes at the end of the call. */
const script = `set -e
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"
mount --rbind /dev "$2/root/dev"
mount -t proc proc "$2/root/proc"
shift 2
exec chroot --userspec="$1" "$2" "\${@:3}"`

/** The template's files belong to users whose numbers are shifted by so many: the user of the base template is 1000. */
const shiftedUser = 101_000
let calls = 0

/** Runs a program as the user of the base template; gives what it printed. */
export async function runOnHost(rootFolder: string, words: readonly string[]): Promise<string> {
  const folder = join(cacheFolder, `bench-host-${process.pid}-${++calls}`)
  const root = join(folder, 'root')
  for (const part of ['upper', 'work', 'root']) await mkdir(join(folder, part), { recursive: true })
  try {
    const user = `${shiftedUser}:${shiftedUser}`
    const chroot = ['bash', '-c', script, 'bash', rootFolder, folder, user, root]
    const env = { PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin', HOME: '/home/user' }
    const namespaces = ['--mount', '--pid', '--fork', '--kill-child']
    return (await runCommand('unshare', [...namespaces, ...chroot, ...words], { env })).stdout
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
