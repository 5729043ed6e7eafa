/**
 * Checks whether this machine can run sandboxes, by trying each feature in namespaces that vanish at once.
 */
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { ProbeResult } from '../../../core/ports/driver.ts'
import { errorText } from '../../../lib/app-error.ts'
import { ifPresent } from '../../../lib/if-present.ts'
import { runCommand } from '../../../lib/run-command.ts'
import type { OciContext } from '../context/context.ts'
import { systemPackages, systemTools } from '../runtime/system-tools.ts'
import { usersWithIDs } from './subordinate-ids.ts'

type ProbeCheck = { reason: string; remedy: string; run(): Promise<unknown> }

const capSysAdmin = 21n
const capNetAdmin = 12n

const tryOverlay = `mount -t tmpfs none /mnt && mkdir /mnt/a /mnt/b /mnt/c /mnt/d &&
mount -t overlay -o lowerdir=/mnt/a,upperdir=/mnt/b,workdir=/mnt/c,volatile none /mnt/d`
const tryLoop = `mount -t tmpfs none /mnt && truncate -s 8M /mnt/image && mkfs.ext4 -q -F -O ^has_journal /mnt/image &&
mkdir /mnt/disk && mount -o loop /mnt/image /mnt/disk`
const tryNetwork = `ip link add probe0 type veth peer name probe1 && nft -f - <<END
table inet probe {
  set pairs { type ipv4_addr . ipv4_addr; flags interval; elements = { 192.0.2.1 . 192.0.2.0-192.0.2.9 } }
  chain in { type filter hook prerouting priority raw; fib saddr . iif oif missing drop; }
  chain over { type nat hook prerouting priority dstnat; ip saddr . ip daddr @pairs tcp dport 80 dnat ip to 192.0.2.2:80; }
  chain out { type nat hook postrouting priority srcnat; masquerade; }
}
END`

export async function probeMachine(context: OciContext): Promise<ProbeResult> {
  for (const check of checks(context)) {
    try {
      await check.run()
    } catch (error) {
      return {
        usable: false,
        reason: `${check.reason} (${firstLine(errorText(error))})`,
        remedy: check.remedy,
      }
    }
  }
  const version = firstLine((await runCommand(context.runtime.binary, ['--version'])).stdout)
  const notes = [`${context.runtime.binary}: ${version}`, ...(await cautions(context))]
  return { usable: true, detail: notes.join('; ') }
}

function checks({ runtime, cgroups }: OciContext): ProbeCheck[] {
  return [
    {
      reason: 'Warren does not run as root with full powers',
      remedy: 'Start it as root, outside of a restricted container.',
      run: async () => needPowers(),
    },
    {
      reason: `${runtime.flavour.runtime} cannot be run`,
      remedy: runtime.flavour.remedy(runtime.binary),
      run: () => runCommand(runtime.binary, ['--version'], { timeoutMs: 10_000 }),
    },
    {
      reason: 'A system tool is missing',
      remedy: `Install it: ${systemPackages}`,
      run: () =>
        runCommand('sh', [
          '-ec',
          'for tool; do command -v "$tool" || { echo "$tool" >&2; exit 1; }; done',
          'sh',
          ...systemTools,
        ]),
    },
    {
      reason: 'The kernel offers no limits for CPU, memory or processes here',
      remedy: 'Mount cgroups with the cpu, memory and pids controllers (a plain systemd machine has them).',
      run: async () => needControllers(cgroups),
    },
    {
      reason: 'User namespaces are closed',
      remedy: 'Allow them: sysctl -w user.max_user_namespaces=65536',
      run: () => runCommand('unshare', ['--user', 'true']),
    },
    {
      reason: 'overlayfs cannot be mounted',
      remedy: 'Load it: modprobe overlay. It needs Linux 5.10 or later.',
      run: () => runCommand('unshare', ['--mount', 'sh', '-c', tryOverlay]),
    },
    {
      reason: 'A disk image cannot be mounted through a loop device',
      remedy: 'Load it: modprobe loop; /dev/loop-control must be there.',
      run: () => runCommand('unshare', ['--mount', 'sh', '-c', tryLoop]),
    },
    {
      reason: 'Network namespaces or nftables do not work',
      remedy:
        'Load them: modprobe -a veth nf_tables nft_fib_inet nft_masq nft_nat. Sets of address pairs need Linux 5.6 and nftables 0.9.4.',
      run: () => runCommand('unshare', ['--net', 'sh', '-c', tryNetwork]),
    },
  ]
}

function needPowers(): void {
  const granted = BigInt(
    `0x${/^CapEff:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'}`,
  )
  const has = (capability: bigint) => (granted >> capability) & 1n
  if (process.getuid?.() !== 0 || !has(capSysAdmin) || !has(capNetAdmin)) {
    throw new Error('CAP_SYS_ADMIN and CAP_NET_ADMIN are needed')
  }
}

function needControllers(cgroups: OciContext['cgroups']): void {
  const missing = ['cpu', 'memory', 'pids'].filter((controller) => !cgroups.has(controller))
  if (missing.length > 0) throw new Error(`missing: ${missing.join(', ')}`)
}

async function cautions(context: OciContext): Promise<string[]> {
  return [...(await firewallCautions()), ...(await userCautions(context))]
}

/** Sandboxes under gVisor all run as these ids. A user of the machine who has them can send signals to sandboxes. */
async function userCautions({ runtime, uidBase }: OciContext): Promise<string[]> {
  if (runtime.flavour.hasOwnUsers) return []
  const names = usersWithIDs((await ifPresent(readFile('/etc/subuid', 'utf8'))) ?? '', uidBase)
  if (names.length === 0) return []
  return [
    `/etc/subuid gives ${names.join(', ')} the user ids as which sandboxes run (from ${uidBase}), so they can end sandboxes: give them others`,
  ]
}

/** Docker and some firewalls drop forwarded packets by default; a rule of ours cannot override that. */
async function firewallCautions(): Promise<string[]> {
  const { stdout } = await runCommand('nft', ['list', 'chains', 'ip']).catch(() => ({ stdout: '' }))
  const drops = /hook forward [^}]*policy drop/.test(stdout)
  return drops
    ? [
        'another firewall on this host drops forwarded packets, so sandboxes reach the internet only if it lets links w* pass',
      ]
    : []
}

const firstLine = (text: string): string => text.trim().split('\n')[0] ?? ''
